"""Published rows next to those that their sources compare them with. Only numbers of the same
source are divided by each other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

from rnnbench.sources.published import COLUMNS, Comparison, PublishedRow, conditions

RATIOS = {
    "time": "train_seconds",
    "cost": "usd",
    "price": "price_usd_per_hour",
}


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
