"""Relative time, relative cost, break-even price and the time–cost front, per model."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rnnbench.sources.prices import PriceList
from rnnbench.tables.certificates import NOT_LEARNING
from rnnbench.tables.grouping import Rows, split
from rnnbench.tables.pooling import Spread, pooled_spreads, shared
from rnnbench.tables.reference import key_of
from rnnbench.tables.stats import mean_interval, ratio_interval
from rnnbench.tables.time import KEY, NOT_EQUAL, RUN, compare
from rnnbench.tables.usable_runs import run_values

if TYPE_CHECKING:
    import pandas as pd

# What a training is of; it can be done at different places.
TASK = ["model", "cell", "dataset", "variant"]
PLACE = ["device", "machine", "build"]
COST_COLUMNS = [
    *TASK, *PLACE, "implementation", "runs", "suspect", "epochs", "seconds", "seconds_low",
    "seconds_high", "relative", "relative_low", "relative_high", "reference", "price_kind",
    "usd_per_hour", "usd", "relative_usd", "relative_usd_low", "relative_usd_high",
    "break_even_usd_per_hour", "on_front",
]  # fmt: skip
HOUR = 3600.0


def cost(
    frame: pd.DataFrame,
    time_table: pd.DataFrame,
    prices: PriceList | None,
    reference: Mapping[str, str],
) -> pd.DataFrame:
    """One row per task and place: what one training takes there with the fastest implementation.

    Columns: the task, the place, `implementation`, `runs`, `suspect` (runs); `epochs` of a
    training; `seconds` of all its epochs (95 % `seconds_low`, `seconds_high`; start-up and
    validation apart); `relative` = seconds / the reference place's, with 95 %
    `relative_low`, `relative_high` (places of one machine are compared by their common blocks as in
    the time table; machines share no block, so theirs is Welch's); `reference` (bool);
    `price_kind`, `usd_per_hour`, `usd` = seconds / 3600 · price; `relative_usd` and its interval
    (that of the time: a price has none); `break_even_usd_per_hour`: the price at which the place
    costs as much as the reference; `on_front`: no other place is both faster and cheaper.

    The reference place is on the device that `reference` names, or else `prices`, or else the
    first; of several machines or builds there, the first. Source: the time table and `prices`.
    """
    import pandas as pd

    values = run_values(frame)
    runs, spreads = split(values, KEY, [*RUN, "epochs"]), pooled_spreads(values, KEY)
    wanted = reference.get("device") or (prices.reference if prices else "")
    rows: list[dict[str, Any]] = []
    usable = time_table[~time_table["words"].isin([NOT_EQUAL, NOT_LEARNING])]
    for _, cells in usable.groupby(TASK, sort=False):
        fastest = cells.sort_values("epoch_seconds", kind="stable").drop_duplicates(PLACE)
        places = fastest.sort_index().to_dict("records")
        build = reference.get("build")
        base = min(places, key=lambda one: (one["device"] != wanted, one["build"] != build))
        found = [
            _row(place, base, runs[key_of(place)], runs[key_of(base)], shared(spreads, place, base),
                 prices)
            for place in places
        ]  # fmt: skip
        _front(found)
        rows += found
    return pd.DataFrame(rows, columns=COST_COLUMNS)


def cheapest_within(table: pd.DataFrame, deadline: float) -> dict[str, Any] | None:
    """The cheapest place of one task that trains within `deadline` seconds, by the upper end of
    its interval; None where none does or none has a price."""
    sure = table["seconds_high"].fillna(table["seconds"]) <= deadline
    return _least(table[sure & table["usd"].notna()], "usd")


def fastest_under(table: pd.DataFrame, budget: float) -> dict[str, Any] | None:
    """The fastest place of one task that trains for at most `budget` USD, by the upper end."""
    high = table["seconds_high"].fillna(table["seconds"]) / HOUR * table["usd_per_hour"]
    return _least(table[high <= budget], "seconds")


def _row(
    place: Mapping[Any, Any],
    base: Mapping[Any, Any],
    own: Rows,
    other: Rows,
    spread: Spread | None,
    prices: PriceList | None,
) -> dict[str, Any]:
    epochs, base_epochs = (float(statistics.median(one["epochs"])) for one in (own, other))
    whole, base_whole = (
        {**one, "seconds": one["seconds"] * count, "effect": one["effect"] + math.log(count)}
        for one, count in ((own, epochs), (other, base_epochs))
    )
    seconds = mean_interval(whole["seconds"].tolist())
    price = prices.of(place["device"]) if prices else None
    base_price = prices.of(base["device"]) if prices else None
    is_base = key_of(place) == key_of(base)
    if place["machine"] == base["machine"]:
        ratio = compare(base_whole, whole, spread)
    else:
        ratio = ratio_interval(whole["seconds"].tolist(), base_whole["seconds"].tolist())
    relative = (1.0, None, None) if is_base else (ratio.estimate, ratio.low, ratio.high)
    share = price.usd_per_hour / base_price.usd_per_hour if price and base_price else None
    usd = seconds.estimate / HOUR * price.usd_per_hour if price else None
    return {
        **{name: place[name] for name in (*TASK, *PLACE, "implementation", "runs", "suspect")},
        "epochs": epochs,
        "seconds": seconds.estimate,
        "seconds_low": seconds.low,
        "seconds_high": seconds.high,
        "relative": relative[0],
        "relative_low": relative[1],
        "relative_high": relative[2],
        "reference": is_base,
        "price_kind": price.kind if price else "",
        "usd_per_hour": price.usd_per_hour if price else None,
        "usd": usd,
        "relative_usd": _times(relative[0], share),
        "relative_usd_low": _times(relative[1], share),
        "relative_usd_high": _times(relative[2], share),
        "break_even_usd_per_hour": (
            base_price.usd_per_hour / relative[0] if base_price and not is_base else None
        ),
    }


def _front(rows: list[dict[str, Any]]) -> None:
    """Marks the rows that no other row beats in both time and cost."""
    for row in rows:
        row["on_front"] = row["usd"] is not None and not any(
            other["usd"] is not None
            and other["seconds"] <= row["seconds"]
            and other["usd"] <= row["usd"]
            and (other["seconds"], other["usd"]) != (row["seconds"], row["usd"])
            for other in rows
        )


def _times(value: float | None, factor: float | None) -> float | None:
    return None if value is None or factor is None else value * factor


def _least(table: pd.DataFrame, by: str) -> dict[str, Any] | None:
    if table.empty:
        return None
    row: dict[Any, Any] = table.sort_values(by, kind="stable").iloc[0].to_dict()
    return row
