"""What training costs: relative time, relative cost, break-even price and the time–cost front of
each task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from rnnbench.axes import PLACE, TASK, Row
from rnnbench.records.interval import Interval
from rnnbench.sources.prices import Price, PriceList
from rnnbench.tables.estimates import Measurements, key_of
from rnnbench.tables.outcome import Outcome

FROM_TIME = [*TASK, *PLACE, "implementation", "runs", "suspect"]
COST_COLUMNS = [
    *FROM_TIME,
    "epochs",
    "seconds",
    "seconds_low",
    "seconds_high",
    "relative",
    "relative_low",
    "relative_high",
    "reference",
    "price_kind",
    "usd_per_hour",
    "usd",
    "relative_usd",
    "relative_usd_low",
    "relative_usd_high",
    "break_even_usd_per_hour",
    "on_front",
]
Found = tuple["pd.Series[Any] | None", pd.DataFrame]  # the best row, those as good


def cost(measured: Measurements, time_table: pd.DataFrame) -> pd.DataFrame:
    """One row per task (model, RNN cell, dataset, variant) and place (device, machine, build): time
    and cost of one training with the fastest implementation there.

    Columns:

    - the task, the place, `implementation`; `runs`, `suspect`.
    - `epochs` of a training.
    - `seconds` of all its epochs, without start-up and validation, with their interval.
    - `relative` = seconds / seconds of the reference place, with its interval.
    - `reference` (bool: the row is the reference place).
    - `price_kind`, `usd_per_hour`; `usd` = seconds / 3600 · price.
    - `relative_usd` with the interval of the relative time (a price has none).
    - `break_even_usd_per_hour`: the price at which the place costs as much as the reference.
    - `on_front` (bool: no other place is both faster and cheaper).

    The reference place is on the device that the price list names, else the device that the
    reference names, else the first device. If it has several machines or builds, the build that the
    reference names is used, else the first. Source: the time table and the price list.
    """
    preferences = [
        ("device", measured.reference.get("device")),
        ("build", measured.reference.get("build")),
    ]
    if measured.prices:
        preferences.insert(0, ("device", measured.prices.reference))
    rows = []
    usable = time_table[~time_table["words"].isin([Outcome.ANOTHER_FUNCTION, Outcome.NOT_LEARNING])]
    for _, task_rows in usable.groupby(TASK, sort=False):
        ordered = task_rows.sort_values("epoch_seconds", kind="stable")
        fastest = ordered.drop_duplicates(PLACE).sort_index()
        places = fastest.to_dict("records")
        candidates = places
        for axis, choice in preferences:
            preferred = [place for place in candidates if place[axis] == choice]
            candidates = preferred or candidates
        place_rows = [_cost_row(measured, place, candidates[0]) for place in places]
        _mark_front(place_rows)
        rows += place_rows
    return pd.DataFrame(rows, columns=COST_COLUMNS)


def cheapest_within(table: pd.DataFrame, deadline: float) -> Found:
    """Of one task, the cheapest place that trains within `deadline` seconds by its whole interval,
    and the rows of the places that may be as cheap and may train in time.

    `table`: rows of `cost`. The place is None if no place with a price is fast enough.
    """
    return _best(
        table,
        "usd",
        "seconds",
        deadline,
    )


def fastest_under(table: pd.DataFrame, budget: float) -> Found:
    """Of one task, the fastest place that trains for at most `budget` USD by its whole interval,
    and the rows of the places that may be as fast and as cheap.

    `table`: rows of `cost`. The place is None if no place is cheap enough.
    """
    return _best(
        table,
        "seconds",
        "usd",
        budget,
    )


def _best(
    table: pd.DataFrame,
    measure: str,
    limited: str,
    limit: float,
) -> Found:
    """The best row within a limit (None if there is none), and the rows that may be as good.

    - `table`: rows of `cost`; those without a price are no choice.
    - `measure`: what is least in the best row, ``seconds`` or ``usd``.
    - `limited`: the other one; with its whole interval it must not exceed the `limit`.
    """
    table = table[table["usd"].notna()]
    usd_per_second = table["usd"] / table["seconds"]
    low = table["seconds_low"].fillna(table["seconds"])
    high = table["seconds_high"].fillna(table["seconds"])
    lows = {"seconds": low, "usd": low * usd_per_second}
    highs = {"seconds": high, "usd": high * usd_per_second}
    within = table[highs[limited] <= limit].sort_values(measure, kind="stable")
    if within.empty:
        return None, within
    best = within.index[0]
    may_be_within = lows[limited] <= limit
    may_be_as_good = lows[measure] <= highs[measure][best]
    others = table[may_be_within & may_be_as_good].drop(best)
    return within.iloc[0], others


def _cost_row(measured: Measurements, place: Row, base: Row) -> Row:
    """The row of a place.

    - `place`: its row in the time table, of the fastest implementation there.
    - `base`: that of the reference place.
    """
    key = key_of(place)
    base_key = key_of(base)
    epochs = float(np.median(measured.groups[key]["epochs"]))
    base_epochs = float(np.median(measured.groups[base_key]["epochs"]))
    seconds = measured.estimates.seconds(key).scaled(epochs)
    relative = Interval(1.0, None, None)
    if key != base_key:  # seconds of the place / seconds of the reference
        relative = measured.estimates.ratio(base_key, key).scaled(epochs / base_epochs)
    row = {
        **{name: place[name] for name in FROM_TIME},
        "epochs": epochs,
        **seconds.columns("seconds"),
        **relative.columns("relative"),
        "reference": key == base_key,
        "price_kind": "",
        "usd": None,
    }

    price = _price(place, measured.prices)
    base_price = _price(base, measured.prices)
    if price:
        row["price_kind"] = price.kind
        row["usd_per_hour"] = price.usd_per_hour
        row["usd"] = seconds.estimate / 3600 * price.usd_per_hour
    if base_price and key != base_key:
        row["break_even_usd_per_hour"] = base_price.usd_per_hour / relative.estimate
    if price and base_price:
        usd = relative.scaled(price.usd_per_hour / base_price.usd_per_hour)
        row |= usd.columns("relative_usd")
    return row


def _price(place: Row, prices: PriceList | None) -> Price | None:
    """The price of the place's device. A list prices a device with as many cards as its file says;
    other numbers of replicas are not priced."""
    if prices is None or place["variant"].get("device.replicas"):
        return None
    return prices.price_of(place["device"])


def _mark_front(rows: Sequence[Row]) -> None:
    """Adds `on_front` to the rows of a task: no other place is as fast and as cheap, and better in
    one of both. Rows without a price are not on it."""
    priced = [row for row in rows if row["usd"] is not None]
    for row in rows:
        row["on_front"] = row["usd"] is not None
    for own in priced:
        for other in priced:
            slower = own["seconds"] - other["seconds"]
            dearer = own["usd"] - other["usd"]
            if min(slower, dearer) >= 0 and max(slower, dearer) > 0:
                own["on_front"] = False
