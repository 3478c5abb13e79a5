"""Published rows next to those that their sources compare them with, and the verdicts on claims
about them. Only numbers of the same source are divided by each other."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from rnnbench.sources.published import COLUMNS, Claim, Comparison, PublishedRow, conditions
from rnnbench.tables.comparison import versus
from rnnbench.tables.estimates import Measurements

RATIOS = {
    "time": "train_seconds",
    "cost": "usd",
    "price": "price_usd_per_hour",
}
HOLDS = "holds"
FAILS = "does not hold"
OPEN = "cannot say"


def published_frame(rows: Iterable[PublishedRow]) -> pd.DataFrame:
    """One row per published row.

    Columns:

    - the fields of `PublishedRow`; `below`: whether the seconds are an upper bound.
    - `place`: the device with its vCPUs.
    - `us_per_sample`: µs per sample and epoch.
    - `usd` = hours of training · price of an hour.
    """
    names = [*COLUMNS, "below", "place", "us_per_sample"]
    values = []
    for row in rows:
        values.append([getattr(row, name) for name in names])
    table = pd.DataFrame(values, columns=names)
    numbers = table[["train_seconds", "price_usd_per_hour"]].astype(float)
    table[numbers.columns] = numbers
    table["usd"] = numbers.prod(axis=1, skipna=False) / 3600
    return table


def published_pairs(table: pd.DataFrame, comparison: Comparison) -> pd.DataFrame:
    """One row per pair of a row of `comparison` and its base, or per row if it has no base.

    Columns:

    - those of `published_frame` for the row and, with the suffix ``_base``, for its base.
    - the ratios row / base: `time` (seconds), `cost` (USD) and `price` (USD per hour).
    - `speedup` = 1 / `time`, missing without a base.
    """
    own = table[table["source"] == comparison.source].copy()
    own["row"] = range(len(own))
    base = own[:0]
    if comparison.base:
        base = _matching(own, comparison.base)
    keys = f"source {comparison.by}".split()
    rows = _matching(own, comparison.rows)
    pairs = rows.merge(
        base,
        how="left",
        on=keys,
        suffixes=("", "_base"),
    )
    for name in keys:
        pairs[f"{name}_base"] = pairs[name]
    for name, column in RATIOS.items():
        pairs[name] = pairs[column] / pairs[f"{column}_base"]
    pairs["speedup"] = 1 / pairs["time"]
    return pairs


def claims_table(claims: Sequence[Claim], table: pd.DataFrame) -> pd.DataFrame:
    """One row per claim.

    - `claims`: those of `published.read_claims`.
    - `table`: a `published_frame`; upper bounds of times are not used.

    Columns:

    - those of `Claim`.
    - `values`: its ratios, by the text of what they are for; empty if nothing is computed.
    - `tested`: what they are compared with, as text.
    - `verdict`.
    """
    exact = table[~table["below"].astype(bool)]
    rows = []
    for claim in claims:
        needed = "cost" if claim.ratio == "larger" else claim.ratio
        pairs = published_pairs(exact, claim).dropna(subset=needed)
        ratios = _ratios(pairs, claim)
        rows.append(
            {
                **msgspec.structs.asdict(claim),
                "values": ratios,
                "tested": _tested(claim, pairs),
                "verdict": verdict_of(claim, list(ratios.values())),
            }
        )
    return pd.DataFrame(rows)


def verdict_of(claim: Claim, ratios: Sequence[float]) -> str:
    """The verdict on a claim, with the reason if it is not in the claim.

    `ratios`: those of its rows and their bases; none if no published row matches.
    """
    if not claim.base:
        return claim.answer
    if not ratios:
        return f"{OPEN}: no published row matches"
    outside = 0
    for ratio in ratios:
        if not claim.low <= ratio <= claim.high:
            outside += 1
    if outside == 0:
        return claim.answer or HOLDS
    if len(ratios) == 1:
        return FAILS
    return f"{FAILS}: {outside} of {len(ratios)} outside the range"


def measured_claims(claims: Sequence[Claim], measured: Measurements) -> dict[str, pd.DataFrame]:
    """Claim → the equivalent pairs of configurations measured on one machine (table of `versus`).

    Claims without measured pairs are omitted.
    """
    tables = {}
    for claim in claims:
        if claim.ours:
            a, b = claim.ours.split(" / ")
            table = versus(measured, a.split(","), b.split(","))
            if not table.empty:
                tables[claim.claim] = table
    return tables


def _ratios(pairs: pd.DataFrame, claim: Claim) -> dict[str, float]:
    """The geometric mean of the ratios for each value of the columns `claim.each`, by its text.

    `pairs`: those of `published_pairs`.
    """
    if pairs.empty:
        return {}
    columns = [pairs[name].map(_text) for name in claim.each.split()]
    keys = []
    for index in range(len(pairs)):
        texts = [column.iloc[index] for column in columns]
        keys.append(", ".join(filter(None, texts)))
    logarithms = pairs[list(RATIOS)].apply(np.log)
    means = logarithms.groupby(keys, sort=False).mean().apply(np.exp)
    means["larger"] = means[["time", "cost"]].max(axis=1)
    ratios: dict[Any, float] = means[claim.ratio].to_dict()
    return ratios


def _tested(claim: Claim, pairs: pd.DataFrame) -> str:
    """What the ratios of a claim are compared with, as text; empty if nothing is computed."""
    if not claim.base:
        return ""
    rows = claim.rows or "every row"
    by = claim.by.replace(" ", " and ")
    parts = [f"{claim.ratio} of {rows} / {claim.base}", f"by {by}"]
    if claim.each:
        parts.append(f"for each {claim.each.replace(' ', ' and ')}")
    if claim.low > -math.inf:
        parts.append(f"at least {claim.low:g}")
    if claim.high < math.inf:
        parts.append(f"at most {claim.high:g}")
    count = pd.concat([pairs["row"], pairs["row_base"]]).nunique()
    return f"{', '.join(parts)} (rows: {count}, pairs: {len(pairs)})"


def _matching(table: pd.DataFrame, text: str) -> pd.DataFrame:
    """The rows of `table` that match the conditions of `text`."""
    for name, accepted in conditions(text).items():
        table = table[table[name].map(_text).isin(accepted)]
    return table


def _text(value: Any) -> str:
    """`value` as in a condition: ``8`` for 8.0, ``""`` if missing."""
    if isinstance(value, str):
        return value
    if pd.isna(value):
        return ""
    return f"{value:.15g}"
