"""Relative time, relative cost, break-even price and the time–cost front of each task, and the
energy that a GPU uses for training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from rnnbench.axes import CONFIGURATION, KEY, PLACE, TASK
from rnnbench.sources.certificates import NOT_LEARNING
from rnnbench.sources.prices import Price, PriceList
from rnnbench.tables.estimates import Estimates
from rnnbench.tables.frame import counts, run_values, split
from rnnbench.tables.reference import key_of
from rnnbench.tables.stats import Interval, mean_interval
from rnnbench.tables.time import NOT_EQUAL

COST_COLUMNS = [
    *TASK, *PLACE, "implementation", "runs", "suspect", "epochs", "seconds", "seconds_low",
    "seconds_high", "relative", "relative_low", "relative_high", "reference", "price_kind",
    "usd_per_hour", "usd", "relative_usd", "relative_usd_low", "relative_usd_high",
    "break_even_usd_per_hour", "on_front",
]  # fmt: skip
HOUR = 3600.0
Found = tuple[dict[Any, Any] | None, pd.DataFrame]
FACTS = ["joules_per_sample", "card_watts"]
ENERGY_COLUMNS = [
    *CONFIGURATION, "runs", "suspect", "millijoules", "low", "high", "watts",
]  # fmt: skip


def cost(
    frame: pd.DataFrame,
    time_table: pd.DataFrame,
    prices: PriceList | None,
    reference: Mapping[str, str],
) -> pd.DataFrame:
    """One row per task (model, RNN cell, dataset, variant) and place (device, machine, build): time
    and cost of one training with the fastest implementation there.

    Columns: the task, the place, `implementation`; `runs`, `suspect` (numbers of runs); `epochs` of
    a training; `seconds` of all its epochs, without start-up and validation, with the 95 % interval
    `seconds_low`, `seconds_high`; `relative` = seconds / seconds of the reference place, with the
    95 % interval `relative_low`, `relative_high` (see `Estimates`); `reference` (bool: the
    row is the reference place); `price_kind`, `usd_per_hour`, `usd` = seconds / 3600 · price;
    `relative_usd` with the interval of the relative time (`relative_usd_low`,
    `relative_usd_high`; a price has no interval); `break_even_usd_per_hour`: the price at which the
    place costs as much as the reference; `on_front` (bool: no other place is both faster and
    cheaper).

    The reference place is on the device that `reference` names, else the device that `prices`
    names, else the first device. If it has several machines or builds, the build that `reference`
    names is used, else the first. Source: the time table and `prices`.
    """
    values = run_values(frame, companions=True)
    estimates = Estimates(values)
    epochs = values[~values["companion"]].groupby(KEY, sort=False)["epochs"].median().to_dict()
    device = reference.get("device") or (prices.reference if prices else "")
    rows: list[dict[str, Any]] = []
    usable = time_table[~time_table["words"].isin([NOT_EQUAL, NOT_LEARNING])]
    for _, task_rows in usable.groupby(TASK, sort=False):
        fastest = task_rows.sort_values("epoch_seconds", kind="stable").drop_duplicates(PLACE)
        places = fastest.sort_index().to_dict("records")
        build = reference.get("build")
        base = min(places, key=lambda place: (place["device"] != device, place["build"] != build))
        place_rows = [
            _row(place, base, epochs[key_of(place)], epochs[key_of(base)], estimates, prices)
            for place in places
        ]
        _mark_front(place_rows)
        rows += place_rows
    return pd.DataFrame(rows, columns=COST_COLUMNS)


def cheapest_within(table: pd.DataFrame, deadline: float) -> Found:
    """Of one task, the cheapest place that trains within `deadline` seconds by its whole interval
    (None if no place with a price does), and the rows of the places that may be as cheap and may
    train in time."""
    return _best(table[table["usd"].notna()], "usd", "seconds", deadline)


def fastest_under(table: pd.DataFrame, budget: float) -> Found:
    """Of one task, the fastest place that trains for at most `budget` USD by its whole interval
    (None if no place does), and the rows of the places that may be as fast and as cheap."""
    return _best(table[table["usd"].notna()], "seconds", "usd", budget)


def _best(table: pd.DataFrame, measure: str, limited: str, limit: float) -> Found:
    usd = table["usd"] / table["seconds"]
    low, high = (table[f"seconds_{end}"].fillna(table["seconds"]) for end in ("low", "high"))
    lows = {"seconds": low, "usd": low * usd}
    highs = {"seconds": high, "usd": high * usd}
    within = table[highs[limited] <= limit].sort_values(measure, kind="stable")
    if within.empty:
        return None, within
    best = within.index[0]
    possible = (lows[limited] <= limit) & (lows[measure] <= highs[measure][best])
    row: dict[Any, Any] = within.iloc[0].to_dict()
    return row, table[possible & (table.index != best)]


def _row(
    place: Mapping[Any, Any],
    base: Mapping[Any, Any],
    epochs: float,
    base_epochs: float,
    estimates: Estimates,
    prices: PriceList | None,
) -> dict[str, Any]:
    key, base_key = key_of(place), key_of(base)
    seconds = estimates.seconds(key).scaled(epochs)
    price, base_price = (_price(each, prices) for each in (place, base))
    is_base = key == base_key
    relative = Interval(1.0, None, None)
    if not is_base:  # seconds of the place / seconds of the reference
        ratio = estimates.ratio(base_key, key)
        relative = ratio.scaled(epochs / base_epochs)
    relative_usd = None
    if price and base_price:
        price_ratio = price.usd_per_hour / base_price.usd_per_hour
        relative_usd = relative.scaled(price_ratio)
    usd = seconds.estimate / HOUR * price.usd_per_hour if price else None
    return {
        **{name: place[name] for name in (*TASK, *PLACE, "implementation", "runs", "suspect")},
        "epochs": epochs,
        **seconds.columns("seconds"),
        **relative.columns("relative"),
        "reference": is_base,
        "price_kind": price.kind if price else "",
        "usd_per_hour": price.usd_per_hour if price else None,
        "usd": usd,
        "break_even_usd_per_hour": (
            base_price.usd_per_hour / relative.estimate if base_price and not is_base else None
        ),
        **(relative_usd.columns("relative_usd") if relative_usd else {}),
    }


def _price(place: Mapping[Any, Any], prices: PriceList | None) -> Price | None:
    """The price of the place's device. A list prices a device with as many cards as its file says;
    other numbers of replicas are not priced."""
    if prices is None or place["variant"].get("device.replicas"):
        return None
    return prices.price_of(place["device"])


def _mark_front(rows: list[dict[str, Any]]) -> None:
    """Sets `on_front` in `rows`: no other row is at least as fast and as cheap, and better in
    one."""
    for row in rows:
        row["on_front"] = row["usd"] is not None and not any(
            other["usd"] is not None
            and other["seconds"] <= row["seconds"]
            and other["usd"] <= row["usd"]
            and (other["seconds"], other["usd"]) != (row["seconds"], row["usd"])
            for other in rows
        )


def energy(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per configuration and machine whose runs report the energy of their GPU.

    Columns: the configuration; `runs`, `suspect` (numbers of runs); `millijoules` per training
    sample (of the whole card, from the beginning to the end of the training, including its
    validations; geometric mean over runs) with the 95 % interval `low`, `high` (missing for a
    single run); `watts` (mean power of the card in that time, geometric mean over runs). Source:
    the counter of the card, in records of runs that are not void.
    """
    facts = frame.drop_duplicates("record").set_index("record")[FACTS].astype(float)
    values = run_values(frame).join(facts, on="record")
    values = values[(values[FACTS] > 0).all(axis=1)]  # also excludes NaN
    rows = []
    for key, runs in split(values, KEY, [*FACTS, "suspect", "implementation"]).items():
        interval = mean_interval((1e3 * runs["joules_per_sample"]).tolist())
        rows.append(
            {
                **dict(zip(KEY, key, strict=True)),
                **counts(runs),
                **interval.columns("millijoules", "low", "high"),
                "watts": mean_interval(runs["card_watts"].tolist()).estimate,
            }
        )
    return pd.DataFrame(rows, columns=ENERGY_COLUMNS)
