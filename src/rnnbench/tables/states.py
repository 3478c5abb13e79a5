"""Which cycles of a round were slowed down by something outside of it. No side effects.

Two things show this, as running medians over `SMOOTHED` cycles: the random reads that workers time
between turns, and the steps of all members relative to the faster cycles of the same round. How
fast other rounds were plays no part, because the level of a machine may change without any effect
on ratios (``benchmarks/README.md``, "Noisy hours").
"""

from __future__ import annotations

import math
import re
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from rnnbench.records.record import Record
from rnnworker.processors import BYTES, KNOWN

SLOWED_READS = math.log(1.07)  # slowness by the reads from which a cycle is slowed
SLOWED_STEPS = math.log(1.10)  # the same by the steps
SMOOTHED = 7  # cycles
FASTER = 0.2  # quantile of the cycles of a round
GAIN = 0.35  # steps take the duration of the reads to this power: measured, 0.25 to 0.40
OTHER = 2.5  # reads this many times as long have another cause than a neighbour
KNOWN_FROM = (1, 26)  # NumPy of `KNOWN`


class State(IntEnum):
    """How a round can be used."""

    QUIET = 0
    PARTLY_SLOWED = 1  # compared by its other cycles
    SLOWED = 2  # too few other cycles are left


class Source(NamedTuple):
    """What the duration of the random reads depends on; `processor` is empty if NumPy is older than
    those of `KNOWN`."""

    machine: str
    processor: str
    reads_bytes: int
    build: str
    device: str


def source_of(record: Record) -> Source:
    """What the duration of the random reads of a run depends on."""
    processor = ""
    numbers = re.findall(r"\d+", str(record.environment.get("numpy")))
    version = tuple(int(number) for number in numbers[:2])
    if version >= KNOWN_FROM:
        processor = str(record.hardware.get("processor"))
    return Source(
        machine=record.machine,
        processor=processor,
        reads_bytes=record.measured.reads_bytes or BYTES,
        build=record.run.choices.get("build", ""),
        device=record.run.choices.get("device", ""),
    )


def undisturbed(source: Source, lowest: float) -> float:
    """Log seconds of undisturbed reads.

    They are those known of the processor, unless the `lowest` that were measured are shorter or
    have another cause than a neighbour.

    - `source`: what the reads depend on.
    - `lowest`: log seconds.
    """
    seconds = KNOWN.get((source.processor, source.reads_bytes), math.inf)
    known = math.log(seconds)
    if known < lowest < known + math.log(OTHER):
        return known
    return lowest


def slowness(logs: np.ndarray, reads: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How much longer the steps of each cycle took than undisturbed, by the steps and by the reads
    (natural logarithms, one value per cycle, 0 where unknown).

    - `logs`: log seconds per step (members × cycles, NaN where unknown).
    - `reads`: log seconds of the random reads / those of undisturbed ones, likewise.
    """
    medians = _medians(logs, (1,))
    relative = np.ma.masked_invalid(logs - medians[:, None])
    means = relative.mean(axis=0, keepdims=True)
    by_steps = _smoothed(means.filled(np.nan))
    if not np.isnan(by_steps).all():
        by_steps = by_steps - np.nanquantile(by_steps, FASTER)
    by_reads = GAIN * _smoothed(reads)
    return np.nan_to_num(by_steps), np.nan_to_num(by_reads)


def _smoothed(values: np.ndarray) -> np.ndarray:
    """The median of all members in the `SMOOTHED` cycles around each.

    `values`: members × cycles.
    """
    half = SMOOTHED // 2
    padded = np.pad(values, ((0, 0), (half, half)), constant_values=np.nan)
    windows = np.lib.stride_tricks.sliding_window_view(padded, SMOOTHED, axis=1)
    return _medians(windows, (0, 2))


def _medians(values: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """The median over `axes` of what is known, NaN where nothing is.

    `numpy.nanmedian` warns of slices of NaN only.
    """
    is_empty = np.isnan(values).all(axis=axes, keepdims=True)
    found = np.nanmedian(np.where(is_empty, 0, values), axis=axes)
    return np.where(is_empty.squeeze(axes), np.nan, found)
