"""What training costs and how well it uses the machine: relative time, relative cost, break-even
price and the time–cost front of each task; the energy of a GPU; time per timestep, GFLOP/s and
their share of the device's peak; and thread scaling, with Amdahl's law."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from rnnbench.axes import KEY, PLACE, TASK
from rnnbench.sources.certificates import NOT_LEARNING
from rnnbench.sources.prices import Price, PriceList
from rnnbench.sources.published import PublishedRow
from rnnbench.tables.estimates import Key, Measurements, key_of
from rnnbench.tables.frame import COUNTED, Row, Rows, ends, identified
from rnnbench.tables.stats import Interval, mean_interval
from rnnbench.tables.time import NOT_EQUAL

COST_COLUMNS = [
    *TASK, *PLACE, "implementation", "runs", "suspect", "epochs", *ends("seconds"),
    *ends("relative"), "reference", "price_kind", "usd_per_hour", "usd", *ends("relative_usd"),
    "break_even_usd_per_hour", "on_front",
]  # fmt: skip
Found = tuple[dict[Any, Any] | None, pd.DataFrame]
EFFICIENCY_COLUMNS = [
    *COUNTED, "step_seconds", *ends("us_per_timestep"), *ends("gflops"), *ends("mfu"),
    "peak_tflops", "timesteps", "flops_per_sample", "why",
]  # fmt: skip
UNCOUNTED = (
    "their records do not count the products of a step: a layer is neither recurrent nor dense, or "
    "they are older than this count"
)
ABOVE_PEAK = "the runs exceed the device's peak_tflops, which is therefore too low"
MIN_COUNTS = 3  # two points fit any line
FAMILY = [name for name in KEY if name != "device"]
SCALING_COLUMNS = [
    *FAMILY, "implementation", "device", "threads", "runs", "suspect", *ends("speedup"), "ideal",
    "efficiency", "serial_fraction", "fitted",
]  # fmt: skip
PUBLISHED_COLUMNS = [
    "source", "model", "build", "threads", "seconds", *ends("speedup"), "ideal", "serial_fraction",
    "fitted",
]  # fmt: skip


def cost(measured: Measurements, time_table: pd.DataFrame) -> pd.DataFrame:
    """One row per task (model, RNN cell, dataset, variant) and place (device, machine, build): time
    and cost of one training with the fastest implementation there.

    Columns: the task, the place, `implementation`; `runs`, `suspect`; `epochs` of a training;
    `seconds` of all its epochs, without start-up and validation, and `relative` = seconds / seconds
    of the reference place, with their intervals; `reference` (bool: the row is the reference
    place); `price_kind`, `usd_per_hour`, `usd` = seconds / 3600 · price; `relative_usd` with the
    interval of the relative time (a price has none); `break_even_usd_per_hour`: the price at which
    the place costs as much as the reference; `on_front` (bool: no other place is both faster and
    cheaper).

    The reference place is on the device that the price list names, else the device that the
    reference names, else the first device. If it has several machines or builds, the build that the
    reference names is used, else the first. Source: the time table and the price list.
    """
    reference, prices = measured.reference, measured.prices
    devices = (prices.reference if prices else "", reference.get("device"))
    rows: list[dict[str, Any]] = []
    usable = time_table[~time_table["words"].isin([NOT_EQUAL, NOT_LEARNING])]
    for _, task_rows in usable.groupby(TASK, sort=False):
        fastest = task_rows.sort_values("epoch_seconds", kind="stable").drop_duplicates(PLACE)
        places = fastest.sort_index().to_dict("records")
        base = min(
            places,
            key=lambda place: (
                *(place["device"] != device for device in devices),
                place["build"] != reference.get("build"),
            ),
        )
        place_rows = [_cost_row(measured, place, base) for place in places]
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


def _cost_row(measured: Measurements, place: Row, base: Row) -> dict[str, Any]:
    key, base_key = key_of(place), key_of(base)
    epochs, base_epochs = (float(np.median(measured.groups[k]["epochs"])) for k in (key, base_key))
    seconds = measured.estimates.seconds(key).scaled(epochs)
    row = {
        **{name: place[name] for name in (*TASK, *PLACE, "implementation", "runs", "suspect")},
        "epochs": epochs,
        **seconds.columns("seconds"),
        "reference": key == base_key,
        "price_kind": "",
        "usd": None,
    }
    relative = Interval(1.0, None, None)
    if key != base_key:  # seconds of the place / seconds of the reference
        relative = measured.estimates.ratio(base_key, key).scaled(epochs / base_epochs)
    row |= relative.columns("relative")
    price, base_price = (_price(each, measured.prices) for each in (place, base))
    if price:
        row |= {"price_kind": price.kind, "usd_per_hour": price.usd_per_hour}
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


def _mark_front(rows: list[dict[str, Any]]) -> None:
    known = [(row["seconds"], row["usd"]) for row in rows if row["usd"] is not None]
    for row in rows:
        own = row["seconds"], row["usd"]
        better = (each != own and each[0] <= own[0] and each[1] <= own[1] for each in known)
        row["on_front"] = own in known and not any(better)


def energy(measured: Measurements) -> pd.DataFrame:
    """One row per configuration and machine whose runs report the energy of their GPU.

    Columns: the configuration; `runs`, `suspect`; `millijoules` per training sample (of the whole
    card, from the beginning to the end of the training, including its validations; geometric mean
    over runs) with the 95 % interval `low`, `high`; `watts` (mean power of the card in that time,
    geometric mean over runs). Source: the counter of the card, in records of runs that are not
    void.
    """
    rows = []
    for key, every in measured.groups.items():
        reported = (every["joules_per_sample"] > 0) & (every["card_watts"] > 0)  # excludes NaN
        if reported.any():
            runs = {name: column[reported] for name, column in every.items()}
            joules = mean_interval((1e3 * runs["joules_per_sample"]).tolist())
            rows.append(
                {
                    **identified(key, runs),
                    **joules.columns("millijoules", "low", "high"),
                    "watts": mean_interval(runs["card_watts"].tolist()).estimate,
                }
            )
    return pd.DataFrame(rows, columns=[*COUNTED, "millijoules", "low", "high", "watts"])


def efficiency(measured: Measurements) -> pd.DataFrame:
    """One row per configuration and machine, from runs that are not void. Values follow from the
    seconds of the `Estimates`, each with its interval.

    Columns:

    - the configuration; `runs`, `suspect`; `step_seconds` (seconds per training step);
      `us_per_timestep` (`step_seconds` / `timesteps`, in µs).
    - `gflops`: GFLOP/s of the matrix products of a step, forward and backward.
    - `mfu`: model FLOP/s utilisation, `gflops` / (1000 · `peak_tflops`), where `peak_tflops` is the
      peak of the device at the precision of the runs, from its datasheet. Missing if the device
      states none, or if the runs exceed it.
    - `timesteps` (length of the longest sequence), `flops_per_sample`.
    - `why`: the reason for missing `gflops` or `mfu` (``""`` if neither is missing).
    """
    rows = []
    for key, runs in measured.groups.items():
        step = measured.estimates.seconds(key).scaled(1 / _median(runs, "steps"))
        peak = _peak(measured, runs)
        rows.append({**identified(key, runs), **_efficiency(runs, step, peak)})
    return pd.DataFrame(rows, columns=EFFICIENCY_COLUMNS)


def _efficiency(runs: Rows, step: Interval, peak: float | None) -> dict[str, Any]:
    timesteps, flops = _median(runs, "timesteps"), _median(runs, "flops_per_sample")
    row: dict[str, Any] = {
        "step_seconds": step.estimate,
        "peak_tflops": peak,
        "timesteps": timesteps,
        "flops_per_sample": flops,
        "why": "",
    }
    if timesteps > 0:  # not NaN
        row |= step.scaled(1e6 / timesteps).columns("us_per_timestep")
    if not flops > 0:
        return {**row, "why": UNCOUNTED}
    # The last batch of an epoch may be smaller.
    gflop = flops * _median(runs, "samples") / _median(runs, "steps") / 1e9
    row |= step.map(lambda seconds: gflop / seconds).columns("gflops")
    if peak is None:
        where, precision = f"conf/device/{runs['device'][0]}.yaml", runs["precision"][0]
        return {**row, "why": f"{where} states no peak_tflops of {precision}"}
    if gflop / step.estimate > 1e3 * peak:
        return {**row, "why": ABOVE_PEAK}
    return row | step.map(lambda seconds: gflop / (1e3 * peak) / seconds).columns("mfu")


def _median(runs: Rows, name: str) -> float:
    return float(np.median(runs[name]))


def _peak(measured: Measurements, runs: Rows) -> float | None:
    """The device's peak in TFLOP/s; None if it states none, or if the runs use another number of
    threads or replicas."""
    variant = runs["variant"][0]
    if variant.get("device.replicas") or variant.get("device.threads"):
        return None
    return measured.peaks.get(runs["device"][0], {}).get(runs["precision"][0])


def threads_of(device: str) -> int | None:
    """``cpu_16`` → 16; None for a device without a number of threads."""
    match = re.fullmatch(r"cpu_(\d+)", device)
    return int(match.group(1)) if match else None


def scaling(measured: Measurements) -> pd.DataFrame:
    """One row per configuration and number of threads, for configurations that were measured with
    at least three different numbers of threads.

    Columns: the configuration; `threads`; `runs`, `suspect`; `speedup` over the fewest threads with
    its interval; `ideal` (threads / fewest threads); `efficiency` = speedup / ideal;
    `serial_fraction` of the fit of Amdahl's law (equal in all rows of a fit) and the `fitted`
    speed-up. Source: runs that are not void on devices named ``cpu_N``.
    """
    families: dict[Key, dict[int, Key]] = {}
    for key, runs in measured.groups.items():
        if (threads := threads_of(runs["device"][0])) is not None:
            family = tuple(runs[name][0] for name in FAMILY)
            families.setdefault(family, {})[threads] = key
    rows: list[dict[str, Any]] = []
    for by_count in families.values():
        least, family_rows = min(by_count), []
        for threads, key in sorted(by_count.items()):
            ratio = measured.estimates.ratio(key, by_count[least])
            family_rows.append(
                {
                    **identified(key, measured.groups[key]),
                    "threads": threads,
                    **({"speedup": 1.0} if threads == least else ratio.columns("speedup")),
                    "efficiency": ratio.estimate / (threads / least),
                }
            )
        rows += _fitted(family_rows)
    return pd.DataFrame(rows, columns=SCALING_COLUMNS)


def published_scaling(frame: pd.DataFrame, published: Iterable[PublishedRow]) -> pd.DataFrame:
    """One row per published row with vCPUs, for models that `frame` has with several numbers of
    threads.

    Columns: `source`, `model`, `build`, `threads` (vCPUs), `seconds` as published, `speedup` over
    the fewest vCPUs of the same source, model and build, without interval; `ideal`,
    `serial_fraction`, `fitted` as in `scaling`.
    """
    measured = frame["device"].map(threads_of).groupby(frame["model"]).nunique()
    families: dict[tuple[str, str, str], dict[int, float]] = {}
    for row in published:
        if row.vcpus and not row.below and measured.get(row.model, 0) > 1:
            family = families.setdefault((row.source, row.model, row.build), {})
            family.setdefault(row.vcpus, row.train_seconds)
    rows: list[dict[str, Any]] = []
    for key, seconds in families.items():
        family_rows = [
            {
                **dict(zip(("source", "model", "build"), key, strict=True)),
                "threads": count,
                "seconds": seconds[count],
                "speedup": seconds[min(seconds)] / seconds[count],
            }
            for count in sorted(seconds)
        ]
        rows += _fitted(family_rows)
    return pd.DataFrame(rows, columns=PUBLISHED_COLUMNS)


def _fitted(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of a family, fewest threads first, with `ideal` and the fit of Amdahl's law; none if
    they are too few."""
    if len(rows) < MIN_COUNTS:
        return []
    ideals = [row["threads"] / rows[0]["threads"] for row in rows]
    serial = serial_fraction(ideals, [row["speedup"] for row in rows])
    return [
        {**row, "ideal": ideal, "serial_fraction": serial, "fitted": amdahl(ideal, serial)}
        for row, ideal in zip(rows, ideals, strict=True)
    ]


def amdahl(threads: float, serial: float) -> float:
    """The speed-up on n = `threads` threads if a share s = `serial` of the work is serial (Amdahl,
    AFIPS 1967): 1 / (s + (1 - s) / n)."""
    return 1 / (serial + (1 - serial) / threads)


def serial_fraction(threads: list[float], speedups: list[float]) -> float:
    """The least-squares estimate of the serial share s in Amdahl's law, clipped to [0, 1]. The
    inverse speed-up is linear in s, 1/S = 1/n + s (1 - 1/n), so it has a closed form."""
    points = [
        (1 - 1 / n, 1 / speedup - 1 / n) for n, speedup in zip(threads, speedups, strict=True)
    ]
    squares = sum(x * x for x, _ in points)
    return min(1.0, max(0.0, sum(x * y for x, y in points) / squares)) if squares else 0.0
