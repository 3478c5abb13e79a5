"""The section of the published page on claims, and whether the published rows support them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from rnnbench.report import numbers as n
from rnnbench.report.section import Section
from rnnbench.report.table_view import Column, view_of
from rnnbench.tables.articles import CPU_GPU, K80_P100, STEPS
from rnnbench.tables.claims import NO, OPEN
from rnnbench.tables.unequal_ratio import Unequal

# Source → id of the section with its rows.
SECTIONS = {K80_P100: "cudnn", STEPS: "samples", CPU_GPU[0]: "cpu-gpu-0-section"}
SHOWN = 3  # pairs of measured configurations per claim
WORDS = (
    "Claims that are quoted from these comparisons, in their own words, and whether the rows that "
    "they rest on support them. The numbers are computed from the rows of this page, to which they "
    "link. A ratio is the published seconds of the first divided by those of the second. Next to "
    "it is the ratio measured on this machine, if there is one, with its 95 % confidence interval."
)


def claims_section(table: pd.DataFrame, ours: Mapping[str, pd.DataFrame]) -> Section:
    """`table` and `ours` as `claims_table` and `measured_claims` make them."""
    columns = (
        Column("supported by its rows?", _supported, number=False),
        Column("value in the rows", _found, number=False, linked=True),
        Column("measured here", lambda r: _ours(ours.get(r["claim"]), r["ours_note"]),
               number=False),
        Column("quotation", "words", number=False),
        Column("rests on", _rests_on, number=False, linked=True),
        Column("source", "address", number=False, quiet=True),
    )  # fmt: skip
    counts = {verdict: int((table["supported"] == verdict).sum()) for verdict in (NO, OPEN)}
    summary = (
        f"Of {n.counted(len(table), 'claim')}, the rows do not support {counts[NO]} and do not "
        f"decide {counts[OPEN]}."
    )
    table = table.assign(anchor=[SECTIONS.get(source, "") for source in table["from"]])
    view = view_of(table, "claims", "Claims and their rows", "claim", "claim", columns)
    return Section("claims-section", "Claims", (WORDS, summary), (), (view,), "words")


def _supported(row: Mapping[Any, Any]) -> str:
    return f"{row['supported']}: {row['why']}" if row["why"] else str(row["supported"])


def _rests_on(row: Mapping[Any, Any]) -> str:
    pairs = n.counted(int(row["pairs"]), "pair")
    return f"{row['set_against']}: {n.counted(int(row['rows']), 'row')}, {pairs}"


def _found(row: Mapping[Any, Any]) -> str:
    if row["numbers"]:
        return str(row["numbers"])
    low, high = row["found_low"], row["found_high"]
    return f"{n.ratio(low)} to {n.ratio(high)}" if n.is_number(low) else n.NOTHING


def _ours(table: pd.DataFrame | None, note: str) -> str:
    if table is None:
        return n.NOTHING
    pairs = [_pair(row) for row in table.head(SHOWN).to_dict("records")]
    more = [f"and {len(table) - SHOWN} more"] if len(table) > SHOWN else []
    return "; ".join([*pairs, *more, *([note] if note else [])])


def _pair(row: Mapping[Any, Any]) -> str:
    where = f"{row['same']}: " if row["same"] else ""
    if isinstance(other := row["unequal"], Unequal):
        ratio = n.marked(n.unequal(other), row["suspect"])
        return f"{where}{ratio} ({n.unequal_span(other)}), {row['difference']}"
    if not n.is_number(row["ratio"]):
        return f"{where}{row['words']}"
    span = n.ratio_span(row["low"], row["high"], row["ratio"])
    return f"{where}{n.marked(n.ratio(row['ratio']), row['suspect'])} ({span})"
