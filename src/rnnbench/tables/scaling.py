"""Thread scaling: speed-up over the fewest threads of an implementation, and Amdahl's law."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pandas as pd

from rnnbench.axes import KEY
from rnnbench.sources.published import PublishedRow
from rnnbench.tables.estimates import Estimates
from rnnbench.tables.grouping import Rows, counts, split
from rnnbench.tables.reference import Key
from rnnbench.tables.usable_runs import run_values

MIN_COUNTS = 3  # two points fit any line
FAMILY = [name for name in KEY if name != "device"]
SCALING_COLUMNS = [
    *FAMILY, "implementation", "device", "threads", "runs", "suspect", "speedup", "speedup_low",
    "speedup_high", "ideal", "efficiency", "serial_fraction", "fitted",
]  # fmt: skip
PUBLISHED_COLUMNS = [
    "source", "model", "build", "threads", "seconds", "speedup", "speedup_low", "speedup_high",
    "ideal", "serial_fraction", "fitted",
]  # fmt: skip


def threads_of(device: str) -> int | None:
    """``cpu_16`` → 16; None for a device without a number of threads."""
    match = re.fullmatch(r"cpu_(\d+)", device)
    return int(match.group(1)) if match else None


def scaling(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per configuration and number of threads, for configurations that were measured with
    at least three different numbers of threads.

    Columns: the configuration without its device; `device`, `threads`; `runs`, `suspect` (numbers
    of runs); `speedup` over the fewest threads with the 95 % interval `speedup_low`,
    `speedup_high`; `ideal` (threads / fewest threads); `efficiency` = speedup / ideal;
    `serial_fraction` of the fit of Amdahl's law (equal in all rows of a fit) and the `fitted`
    speed-up. Source: runs that are not void on devices named ``cpu_N``.
    """
    values = run_values(frame, companions=True)
    estimates = Estimates(values)
    families: dict[Key, dict[int, tuple[Key, Rows]]] = {}
    groups = split(values[~values["companion"]], KEY, ["suspect", "implementation", "device"])
    for key, runs in groups.items():
        if (threads := threads_of(runs["device"][0])) is not None:
            family = tuple(dict(zip(KEY, key, strict=True))[name] for name in FAMILY)
            families.setdefault(family, {})[threads] = key, runs
    rows: list[dict[str, Any]] = []
    for family, by_count in families.items():
        if len(by_count) < MIN_COUNTS:
            continue
        least = min(by_count)
        family_rows: list[dict[str, Any]] = []
        for threads in sorted(by_count):
            key, runs = by_count[threads]
            ratio, ideal = estimates.ratio(key, by_count[least][0]), threads / least
            family_rows.append(
                {
                    **dict(zip(FAMILY, family, strict=True)),
                    **counts(runs),
                    "device": runs["device"][0],
                    "threads": threads,
                    **({"speedup": 1.0} if threads == least else ratio.columns("speedup")),
                    "ideal": ideal,
                    "efficiency": ratio.estimate / ideal,
                }
            )
        serial = serial_fraction(
            [row["ideal"] for row in family_rows], [row["speedup"] for row in family_rows]
        )
        for row in family_rows:
            row["serial_fraction"], row["fitted"] = serial, amdahl(row["ideal"], serial)
        rows += family_rows
    return pd.DataFrame(rows, columns=SCALING_COLUMNS)


def published_scaling(frame: pd.DataFrame, published: Sequence[PublishedRow]) -> pd.DataFrame:
    """One row per published row with vCPUs, for models that `frame` has with several numbers of
    threads.

    Columns: `source`, `model`, `build`, `threads` (vCPUs), `seconds` as published, `speedup` over
    the fewest vCPUs of the same source, model and build; `ideal`, `serial_fraction`, `fitted` as in
    `scaling`; `speedup_low`, `speedup_high`: missing.
    """
    measured: dict[str, set[int]] = {}
    for model, device in frame[["model", "device"]].drop_duplicates().itertuples(index=False):
        if (threads := threads_of(device)) is not None:
            measured.setdefault(model, set()).add(threads)
    families: dict[tuple[str, str, str], dict[int, float]] = {}
    for row in published:
        if row.vcpus and not row.below and len(measured.get(row.model, ())) > 1:
            family = families.setdefault((row.source, row.model, row.build), {})
            family.setdefault(row.vcpus, row.train_seconds)
    rows: list[dict[str, Any]] = []
    for (source, model, build), seconds in families.items():
        if len(seconds) < MIN_COUNTS:
            continue
        least = min(seconds)
        speedups = {count: seconds[least] / seconds[count] for count in sorted(seconds)}
        serial = serial_fraction([count / least for count in speedups], list(speedups.values()))
        rows += [
            {
                "source": source, "model": model, "build": build, "threads": count,
                "seconds": seconds[count], "speedup": speedup, "speedup_low": None,
                "speedup_high": None, "ideal": count / least, "serial_fraction": serial,
                "fitted": amdahl(count / least, serial),
            }
            for count, speedup in speedups.items()
        ]  # fmt: skip
    return pd.DataFrame(rows, columns=PUBLISHED_COLUMNS)


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
