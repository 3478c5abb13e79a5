"""Whether the published rows support the claims about them: claims and rows → one table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from rnnbench.sources.claims import Claim
from rnnbench.sources.published import PublishedRow
from rnnbench.tables.articles import published_frame
from rnnbench.tables.certificates import Certificates
from rnnbench.tables.comparison import versus

YES, NO, OPEN = "yes", "no", "cannot say"
# Caveats with these prefixes mark rows whose function or epochs differ from the compared rows.
DIFFERING_CAVEATS = ("confounded", "warm-started")
DIFFERING_ROWS = "the rows differ in function or training (see their caveats)"
COPIED_COLUMNS = ("claim", "words", "source", "address", "measure", "low", "high", "ours_note")
CLAIM_COLUMNS = [
    "claim", "words", "source", "address", "measure", "low", "high", "numbers", "rows", "pairs",
    "found_low", "found_high", "fits", "supported", "why", "ours_note", "from", "set_against",
]  # fmt: skip
NO_MATCH: dict[str, Any] = {"numbers": "", "rows": 0, "pairs": 0, "fits": 0, "supported": OPEN,
            "why": "no published row matches"}  # fmt: skip


def claims_table(claims: Sequence[Claim], published: Sequence[PublishedRow]) -> pd.DataFrame:
    """One row per claim.

    Columns: `claim`, `words`, `source`, `address`, `measure`, `low`, `high` and `ours_note` as in
    `Claim`; `numbers` (the compared numbers as text, if they are few); `rows` and `pairs` (how many
    published rows and pairs of rows the claim rests on); `found_low` and `found_high` (the smallest
    and largest number; for the test ``mean`` both are the mean); `fits` (how many numbers lie
    between `low` and `high`); `supported` (``yes``, ``no`` or ``cannot say``) and `why` (the reason
    as text); `from` (the source of the rows) and `set_against` (the compared rows as text).
    """
    table = published_frame(published)
    rows = [
        {**{name: getattr(claim, name) for name in COPIED_COLUMNS},
         "from": claim.rows, "set_against": _comparison_text(claim), **_support(claim, table)}
        for claim in claims
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=CLAIM_COLUMNS)


def measured_claims(
    claims: Sequence[Claim], frame: pd.DataFrame, certificates: Certificates
) -> dict[str, pd.DataFrame]:
    """Claim → the equivalent pairs of measured configurations (table of `versus`); claims without
    measured pairs are omitted. `frame` is the tidy frame of the runs of one machine."""
    tables = {
        claim.claim: versus(frame, claim.ours_a.split(","), claim.ours_b.split(","), certificates)
        for claim in claims
        if claim.ours_a and claim.ours_b
    }
    return {claim: table for claim, table in tables.items() if not table.empty}


def _support(claim: Claim, table: pd.DataFrame) -> dict[str, Any]:
    table = table.assign(row=range(len(table)))
    source_rows = table[(table["source"] == claim.rows) & ~table["below"].astype(bool)]
    over, of = _matching(source_rows, claim.over), _matching(source_rows, claim.of)
    if claim.measure == "front":
        return _front(claim, over, of)
    merged = over.merge(of, on=list(claim.paired_by), suffixes=("_over", "_of"))
    if merged.empty:
        return NO_MATCH
    pairs = merged.to_dict("records")
    column = "train_seconds" if claim.measure == "time" else "val_acc"
    sides = [(row[f"{column}_over"], row[f"{column}_of"]) for row in pairs]
    values = [a / b if claim.measure == "time" else a - b for a, b in sides]
    if claim.test == "mean":
        values = [math.exp(sum(map(math.log, values)) / len(values))]
    fits = sum(_fits(claim, value) for value in values)
    holds = fits > len(values) / 2 if claim.test == "most" else fits == len(values)
    supported, why = (YES, "") if holds else (NO, _why(values, fits))
    caveats = [str(row[f"caveat_{side}"]) for row in pairs for side in ("over", "of")]
    if any(text.startswith(DIFFERING_CAVEATS) for text in caveats):
        supported = OPEN if claim.measure == "accuracy" else supported
        why = "; ".join(filter(None, (why, DIFFERING_ROWS)))
    return {
        "numbers": "; ".join(_pair_text(claim, a, b) for a, b in sides) if len(sides) < 4 else "",
        "rows": len({row[f"row_{side}"] for row in pairs for side in ("over", "of")}),
        "pairs": len(pairs),
        "found_low": min(values),
        "found_high": max(values),
        "fits": fits,
        "supported": supported,
        "why": why,
    }


def _comparison_text(claim: Claim) -> str:
    over, of = (
        ", ".join(f"{name} {value}" for name, value in side.items())
        for side in (claim.over, claim.of)
    )
    by = " and ".join(name.replace("_", " ") for name in claim.paired_by)
    return f"{over} against {of}, by {by}"


def _front(claim: Claim, over: pd.DataFrame, of: pd.DataFrame) -> dict[str, Any]:
    """Whether no place (vCPUs and build) of `over` is both faster and cheaper than `of`: compares
    geometric means over the workloads of seconds and USD relative to `of`."""
    merged = over.merge(of, on=list(claim.paired_by), suffixes=("", "_of"))
    if merged.empty:
        return NO_MATCH
    time = merged["train_seconds"] / merged["train_seconds_of"]
    usd = time * merged["price_usd_per_hour"] / merged["price_usd_per_hour_of"]
    merged = merged.assign(time=np.log(time), usd=np.log(usd))
    means = np.exp(merged.groupby(["vcpus", "build"], sort=False)[["time", "usd"]].mean())
    better = means[(means["time"] < 1) & (means["usd"] < 1)]
    others = means[(means["time"] != 1) | (means["usd"] != 1)]
    numbers = "; ".join(
        f"{int(key[0])} vCPUs {str(key[1]).partition(' ')[0]}: {row['time']:.2f} of its time, "
        f"{row['usd']:.2f} of its cost"
        for key, row in others.iterrows()
        if row["time"] < 1 or row["usd"] < 1
    )
    return {
        "numbers": numbers,
        "rows": len(over),
        "pairs": len(merged),
        "fits": len(others) - len(better),
        "supported": NO if len(better) else YES,
        "why": f"{len(better)} are both faster and cheaper" if len(better) else "",
    }


def _matching(table: pd.DataFrame, conditions: Mapping[str, str]) -> pd.DataFrame:
    for column, value in conditions.items():
        is_numeric = table[column].dtype.kind in "if"
        table = table[table[column] == (float(value) if is_numeric else value)]
    return table


def _fits(claim: Claim, value: float) -> bool:
    return (claim.low is None or value >= claim.low) and (claim.high is None or value <= claim.high)


def _why(values: Sequence[float], fits: int) -> str:
    if len(values) == 1:
        return "the number is outside the range"
    outside = len(values) - fits
    return f"{outside} of {len(values)} {'is' if outside == 1 else 'are'} outside"


def _pair_text(claim: Claim, a: float, b: float) -> str:
    if claim.measure == "time":
        return f"{a:g} s / {b:g} s = {a / b:.2f}"
    return f"{a:g} - {b:g} = {a - b:+.4f}"
