"""Published rows against the rows that their sources compare them with, and the verdicts on claims
about them. Only numbers of the same source are divided by each other."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from rnnbench.sources.published import COLUMNS, Claim, Comparison, PublishedRow, conditions
from rnnbench.tables.certificates import Certificates
from rnnbench.tables.comparison import versus

HOUR = 3600.0
RATIOS = {"time": "train_seconds", "cost": "usd", "price": "price_usd_per_hour"}
HOLDS, FAILS, OPEN = "holds", "does not hold", "cannot say"


def published_frame(rows: Iterable[PublishedRow]) -> pd.DataFrame:
    """One row per published row. Columns: its fields, `below`, `place` (device with vCPUs),
    `us_per_sample`, and `usd` = hours of training · price of an hour."""
    names = [*COLUMNS, "below", "place", "us_per_sample"]
    table = pd.DataFrame([[getattr(row, name) for name in names] for row in rows], columns=names)
    numbers = table[["train_seconds", "price_usd_per_hour"]].astype(float)
    return table.assign(**numbers, usd=numbers.prod(axis=1, skipna=False) / HOUR)


def compared(table: pd.DataFrame, comparison: Comparison) -> pd.DataFrame:
    """One row per pair of a row of `comparison` and its base, or per row if it has no base.

    Columns: those of `published_frame` for the row and, with the suffix ``_base``, for its base;
    the ratios row / base `time` (seconds), `cost` (USD) and `price` (USD per hour), and `speedup` =
    1 / `time`, missing without a base.
    """
    own = table[table["source"] == comparison.source].assign(row=lambda rows: range(len(rows)))
    base = _matching(own, comparison.base) if comparison.base else own[:0]
    keys = ["source", *comparison.by.split()]
    pairs = _matching(own, comparison.rows).merge(base, "left", keys, suffixes=("", "_base"))
    pairs = pairs.assign(**{f"{name}_base": pairs[name] for name in keys})
    for name, column in RATIOS.items():
        pairs[name] = pairs[column] / pairs[f"{column}_base"]
    return pairs.assign(speedup=1 / pairs["time"])


def claims_table(claims: Sequence[Claim], table: pd.DataFrame) -> pd.DataFrame:
    """One row per claim. `table` is a `published_frame`; upper bounds of times are not used.

    Columns: those of `Claim`; `values` (its ratios, by the text of what they are for), empty if
    nothing is computed; `tested` (what they are compared with, as text) and `verdict`.
    """
    exact = table[~table["below"].astype(bool)]
    rows: list[dict[str, Any]] = []
    for claim in claims:
        pairs = compared(exact, claim)
        pairs = pairs.dropna(subset="cost" if claim.ratio == "larger" else claim.ratio)
        values = _ratios(pairs, claim)
        rows.append(
            {
                **msgspec.structs.asdict(claim),
                "values": values,
                "tested": _tested(claim, pairs) if claim.base else "",
                "verdict": verdict_of(claim, list(values.values())),
            }
        )
    return pd.DataFrame(rows)


def verdict_of(claim: Claim, ratios: Sequence[float]) -> str:
    """The verdict on a claim with these `ratios`, with the reason if it is not in the claim."""
    if not claim.base:
        return claim.answer
    if not ratios:
        return f"{OPEN}: no published row matches"
    outside = sum(not claim.low <= ratio <= claim.high for ratio in ratios)
    if not outside:
        return claim.answer or HOLDS
    return FAILS + (f": {outside} of {len(ratios)} outside the range" if len(ratios) > 1 else "")


def measured_claims(
    claims: Sequence[Claim], frame: pd.DataFrame, certificates: Certificates
) -> dict[str, pd.DataFrame]:
    """Claim → the equivalent pairs of measured configurations (table of `versus`); claims without
    measured pairs are omitted. `frame` is the tidy frame of the runs of one machine."""
    sides = {c.claim: [side.split(",") for side in c.ours.split(" / ")] for c in claims if c.ours}
    tables = {claim: versus(frame, a, b, certificates) for claim, (a, b) in sides.items()}
    return {claim: table for claim, table in tables.items() if not table.empty}


def _ratios(pairs: pd.DataFrame, claim: Claim) -> dict[str, float]:
    """The geometric mean of the ratios for each value of the columns `claim.each`, by its text."""
    each = [pairs[name].map(_text) for name in claim.each.split()]
    keys = [", ".join(filter(None, texts)) for texts in zip(*each, strict=True)]
    logarithms = pairs[[*RATIOS]].apply(np.log).groupby(keys or pairs["source"], sort=False)
    means = logarithms.mean().apply(np.exp)
    means["larger"] = means[["time", "cost"]].max(axis=1)
    return {str(key) if keys else "": value for key, value in means[claim.ratio].items()}


def _tested(claim: Claim, pairs: pd.DataFrame) -> str:
    by, each = (" and ".join(names.split()) for names in (claim.by, claim.each))
    parts = [f"{claim.ratio} of {claim.rows or 'every row'} / {claim.base}", f"by {by}"]
    parts += [f"for each {each}"] if each else []
    parts += [f"at least {claim.low:g}"] if claim.low > -math.inf else []
    parts += [f"at most {claim.high:g}"] if claim.high < math.inf else []
    rows = pd.concat([pairs["row"], pairs["row_base"]]).nunique()
    return f"{', '.join(parts)} (rows: {rows}, pairs: {len(pairs)})"


def _matching(table: pd.DataFrame, text: str) -> pd.DataFrame:
    for name, accepted in conditions(text).items():
        table = table[table[name].map(_text).isin(accepted)]
    return table


def _text(value: Any) -> str:
    """`value` as in a condition: ``8`` for 8.0, ``""`` if missing."""
    if isinstance(value, str):
        return value
    return "" if pd.isna(value) else f"{value:.15g}"
