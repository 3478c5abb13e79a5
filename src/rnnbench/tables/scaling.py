"""Thread scaling of CPUs, measured and as published."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import pandas as pd

from rnnbench.axes import KEY, Row
from rnnbench.sources.published import PublishedRow
from rnnbench.tables.estimates import Key, Measurements
from rnnbench.tables.frame import identified

MIN_COUNTS = 3  # of threads; two are in the table of times
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
        rows += _with_ideal(family_rows)
    return pd.DataFrame(rows, columns=SCALING_COLUMNS)


def published_scaling(frame: pd.DataFrame, published: Iterable[PublishedRow]) -> pd.DataFrame:
    """One row per published row with vCPUs, for models that `frame` has with several numbers of
    threads.

    Columns:

    - `source`, `model`, `build`; `threads` (vCPUs).
    - `seconds` as published.
    - `speedup` over the fewest vCPUs of the same source, model and build, without interval.
    - `ideal` as in `scaling`.
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
        rows += _with_ideal(family_rows)
    return pd.DataFrame(rows, columns=PUBLISHED_COLUMNS)


def _with_ideal(rows: Sequence[Row]) -> Sequence[Row]:
    """The rows of a family, fewest threads first, with `ideal`; none if they are too few."""
    if len(rows) < MIN_COUNTS:
        return []
    for row in rows:
        row["ideal"] = row["threads"] / rows[0]["threads"]
    return rows
