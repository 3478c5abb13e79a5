"""Thread scaling of CPUs, with Amdahl's law, measured and as published."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import pandas as pd

from rnnbench.axes import KEY, Row
from rnnbench.sources.published import PublishedRow
from rnnbench.tables.estimates import Key, Measurements
from rnnbench.tables.frame import identified

MIN_COUNTS = 3  # two points fit any line
FAMILY = [name for name in KEY if name != "device"]
SCALING_COLUMNS = [
    *FAMILY,
    "implementation",
    "device",
    "threads",
    "runs",
    "suspect",
    "speedup",
    "speedup_low",
    "speedup_high",
    "ideal",
    "efficiency",
    "serial_fraction",
    "fitted",
]
PUBLISHED_COLUMNS = [
    "source",
    "model",
    "build",
    "threads",
    "seconds",
    "speedup",
    "speedup_low",
    "speedup_high",
    "ideal",
    "serial_fraction",
    "fitted",
]


def threads_of(device: str) -> int | None:
    """``cpu_16`` → 16; None for a device without a number of threads."""
    match = re.fullmatch(r"cpu_(\d+)", device)
    if match is None:
        return None
    return int(match.group(1))


def scaling(measured: Measurements) -> pd.DataFrame:
    """One row per configuration and number of threads, for configurations that were measured with
    at least three different numbers of threads.

    Columns:

    - the configuration; `threads`; `runs`, `suspect`.
    - `speedup` over the fewest threads with its interval.
    - `ideal`: threads / fewest threads.
    - `efficiency` = speedup / ideal.
    - `serial_fraction` of the fit of Amdahl's law (equal in all rows of a fit).
    - `fitted`: the speed-up of the fit.

    Source: runs that are not void on devices named ``cpu_N``.
    """
    families: dict[Key, dict[int, Key]] = {}
    for key, runs in measured.groups.items():
        threads = threads_of(runs["device"][0])
        if threads is not None:
            family = tuple(runs[name][0] for name in FAMILY)
            families.setdefault(family, {})[threads] = key

    rows: list[Row] = []
    for by_threads in families.values():
        least = min(by_threads)
        family_rows = []
        for threads, key in sorted(by_threads.items()):
            row = identified(key, measured.groups[key])
            row["threads"] = threads
            row["speedup"] = 1.0
            if threads != least:
                ratio = measured.estimates.ratio(key, by_threads[least])
                row |= ratio.columns("speedup")
            row["efficiency"] = row["speedup"] / (threads / least)
            family_rows.append(row)
        rows += _fitted(family_rows)
    return pd.DataFrame(rows, columns=SCALING_COLUMNS)


def published_scaling(frame: pd.DataFrame, published: Iterable[PublishedRow]) -> pd.DataFrame:
    """One row per published row with vCPUs, for models that `frame` has with several numbers of
    threads.

    Columns:

    - `source`, `model`, `build`; `threads` (vCPUs).
    - `seconds` as published.
    - `speedup` over the fewest vCPUs of the same source, model and build, without interval.
    - `ideal`, `serial_fraction`, `fitted` as in `scaling`.
    """
    measured = frame["device"].map(threads_of).groupby(frame["model"]).nunique()
    families: dict[Key, dict[int, float]] = {}
    for row in published:
        if row.vcpus and not row.below and measured.get(row.model, 0) > 1:
            family = families.setdefault((row.source, row.model, row.build), {})
            family.setdefault(row.vcpus, row.train_seconds)

    rows: list[Row] = []
    for (source, model, build), seconds in families.items():
        of_fewest = seconds[min(seconds)]
        family_rows = []
        for threads in sorted(seconds):
            family_rows.append(
                {
                    "source": source,
                    "model": model,
                    "build": build,
                    "threads": threads,
                    "seconds": seconds[threads],
                    "speedup": of_fewest / seconds[threads],
                }
            )
        rows += _fitted(family_rows)
    return pd.DataFrame(rows, columns=PUBLISHED_COLUMNS)


def _fitted(rows: Sequence[Row]) -> Sequence[Row]:
    """The rows of a family, fewest threads first, with `ideal` and the fit of Amdahl's law; none if
    they are too few."""
    if len(rows) < MIN_COUNTS:
        return []
    ideals = [row["threads"] / rows[0]["threads"] for row in rows]
    serial = serial_fraction(ideals, [row["speedup"] for row in rows])
    for row, ideal in zip(rows, ideals, strict=True):
        row["ideal"] = ideal
        row["serial_fraction"] = serial
        row["fitted"] = amdahl(ideal, serial)
    return rows


def amdahl(threads: float, serial: float) -> float:
    """The speed-up of Amdahl's law (AFIPS 1967): 1 / (s + (1 - s) / n).

    - `threads`: n.
    - `serial`: s, the share of the work that is serial.
    """
    return 1 / (serial + (1 - serial) / threads)


def serial_fraction(threads: Sequence[float], speedups: Sequence[float]) -> float:
    """The least-squares estimate of the serial share s in Amdahl's law, clipped to [0, 1].

    The inverse speed-up is linear in s, 1/S = 1/n + s (1 - 1/n), so it has a closed form.

    - `threads`: n of each measurement, relative to the fewest.
    - `speedups`: S of each, over the fewest threads.
    """
    squares = []
    products = []
    for n, speedup in zip(threads, speedups, strict=True):
        x = 1 - 1 / n
        y = 1 / speedup - 1 / n
        squares.append(x * x)
        products.append(x * y)
    if sum(squares) == 0:
        return 0.0
    serial = sum(products) / sum(squares)
    return min(1.0, max(0.0, serial))
