"""How much the machine was slowed down in each cycle of the rounds, and ratios for the undisturbed
machine (``docs/measurement.md``; ``benchmarks/README.md``, "Noisy hours"). No side effects.

The slowness of a cycle is the mean, over its members, of how much longer their steps took than
the shortest that are known of their configuration: the lowest twentieth, over all rounds, of the
running median over `SMOOTHED` cycles. The noise of the turns moves the lowest twentieth of each
member and the mean of all; what it explains, by the least noisy round, is subtracted. A neighbour
slows the random reads down by more than a training step, which takes their time to the power of
`GAIN`; the slowness is at least that.

Ratios of the undisturbed machine are estimated by analysis of covariance (`covariance`) with the
slowness of the rounds as the covariate, up to `SATURATED`.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from rnnbench.tables.stats import student_quantile
from rnnworker.processors import KNOWN

SLOWED = 1.07
SMOOTHED = 7  # cycles
LEVEL = 0.05  # quantile
GAIN = 0.35  # measured on two cores, 2026-11-24: 0.25 to 0.40
OTHER = 2.5  # reads this many times as long have another cause than a neighbour
SATURATED = 0.2  # more slowness changes ratios no further
# Standard deviation of how differently the log seconds of members depend on the slowness. Measured
# on two cores in 70 rounds of four members of 2026-11-24: 0.18 (0.24 on one core, 0.09 on two).
UNEQUAL = 0.18
ITERATIONS = 10  # the variance and the prior depend on each other
CONFIDENCE = 0.95
TINY = 1e-16
Key = TypeVar("Key", bound=Hashable)
NOISE = 1.645  # standard deviations below which a twentieth of a normal distribution is


class Source(NamedTuple):
    """What the duration of the random reads depends on; `processor` is empty if NumPy is older than
    those of `KNOWN`."""

    machine: str
    processor: str
    reads_bytes: int
    build: str
    device: str


class Slowness(NamedTuple):
    """How much slower than undisturbed each cycle of a round was (natural logarithm; NaN for cycles
    without a turn): the `steps` of its members, and the `machine`, by their steps and the reads."""

    steps: np.ndarray
    machine: np.ndarray


class Round(NamedTuple):
    """The members of a round; arrays are members × cycles, with NaN for no turn.

    - `configurations`, `sources`: of the members, by which their levels are known from all rounds.
    - `logs`: log seconds per step; `reads`: log seconds of the random reads.
    """

    configurations: Sequence[str]
    sources: Sequence[Source]
    logs: np.ndarray
    reads: np.ndarray


def slowness(rounds: Sequence[Round]) -> list[Slowness]:
    """The slowness of each round."""
    noise: dict[tuple[str, ...], float] = {}
    for own in rounds:
        kind = tuple(sorted(own.configurations))
        noise[kind] = min(noise.get(kind, math.inf), _noise(own.logs))
    found, by_reads = [], _slowness_of_reads(rounds)
    for own, by_steps, core in zip(rounds, _slowness_of_steps(rounds), by_reads, strict=True):
        steps = by_steps - noise[tuple(sorted(own.configurations))]
        found.append(Slowness(steps, np.where(np.isnan(steps), np.nan, np.fmax(steps, core))))
    return found


def covariance(
    effects: np.ndarray, slow: np.ndarray, lacking: float = 0.0
) -> tuple[np.ndarray, float]:
    """Analysis of covariance: the `effects` of members (members × rounds, log) as a line in the
    slowness `slow` of the rounds, taken to slowness 0; and the factor by which the extrapolation
    widens the intervals of their means.

    The slopes have a normal prior with the standard deviation `UNEQUAL` (ridge regression): where
    a few rounds say little about them, the interval becomes wider instead. What other processes
    used of the time (`lacking`, as a slowness) only widens it.
    """
    members, rounds = effects.shape
    if rounds < 2 or members < 2:
        return effects, 1.0
    slow = np.minimum(slow, SATURATED)
    # Two rounds cannot tell a slope from chance.
    mean, centred = float(slow.mean()), (slow - slow.mean()) * (rounds > 2)
    squares = float((centred**2).sum())
    residuals = effects - effects.mean(axis=0)
    residuals -= residuals.mean(axis=1, keepdims=True)
    slopes, share, prior = np.zeros(members), 0.0, math.inf
    for _ in range(ITERATIONS):
        left = residuals - slopes[:, None] * centred
        variance = float((left**2).sum()) / ((members - 1) * (rounds - 1 - share))
        if variance < TINY:  # equal but for rounding
            break
        prior = variance / UNEQUAL**2
        slopes = residuals @ centred / (squares + prior)
        share = squares / (squares + prior)
    freedom = rounds - 1, rounds - 1 - share
    unknown = mean**2 / (squares + prior) + min(lacking, SATURATED) ** 2 / prior
    variance_of_mean = (1 + rounds * unknown) * freedom[0] / freedom[1]
    quantiles = [student_quantile(CONFIDENCE, degrees) for degrees in freedom]
    widening = math.sqrt(variance_of_mean) * quantiles[1] / quantiles[0]
    return effects - slopes[:, None] * slow, widening


def _slowness_of_steps(rounds: Sequence[Round]) -> list[np.ndarray]:
    """The slowness of the cycles by the steps of the members, including their noise."""
    smoothed = [medians(_windows(own.logs), (2,)) for own in rounds]
    levels = lowest(smoothed, [own.configurations for own in rounds])
    found = []
    for logs, own in zip(smoothed, rounds, strict=True):
        level, known = np.array([levels[name] for name in own.configurations]).T[:, :, None]
        excess = logs - level
        # The level of a configuration that has few rounds may itself be a slowed one.
        weights = known * ~np.isnan(excess)
        total = weights.sum(axis=0)
        with np.errstate(invalid="ignore"):
            found.append(np.where(total > 0, np.nansum(excess * weights, axis=0) / total, np.nan))
    return found


def _slowness_of_reads(rounds: Sequence[Round]) -> list[np.ndarray]:
    """How slow the random reads show the machine to have been in each cycle (natural logarithm, the
    median of members and `SMOOTHED` cycles; NaN if unknown)."""
    levels: dict[Source, float] = {}
    sources = [own.sources for own in rounds]
    for source, (level, _) in lowest([own.reads for own in rounds], sources).items():
        known = math.log(KNOWN.get((source.processor, source.reads_bytes), math.inf))
        levels[source] = known if known < level < known + math.log(OTHER) else level
    found = []
    for own in rounds:
        excess = own.reads - np.array([levels[source] for source in own.sources])[:, None]
        found.append(GAIN * medians(_windows(excess), (0, 2)))
    return found


def lowest(
    values: Sequence[np.ndarray], keys: Sequence[Sequence[Key]]
) -> dict[Key, tuple[float, int]]:
    """For each of the `keys` of the rows of `values` (of each round: members × cycles), the lowest
    twentieth of its values over all rounds, NaN if it has none, and their number."""
    rows: dict[Key, list[np.ndarray]] = {}
    for own, names in zip(values, keys, strict=True):
        for name, row in zip(names, own, strict=True):
            rows.setdefault(name, []).append(row[~np.isnan(row)])
    found = {}
    for name, known in rows.items():
        seen = np.concatenate(known)
        found[name] = float(np.quantile(seen, LEVEL)) if len(seen) else math.nan, len(seen)
    return found


def _windows(logs: np.ndarray) -> np.ndarray:
    """The `SMOOTHED` cycles around each (members × cycles × `SMOOTHED`), NaN beyond the ends."""
    half = SMOOTHED // 2
    padded = np.pad(logs, ((0, 0), (half, half)), constant_values=np.nan)
    return np.lib.stride_tricks.sliding_window_view(padded, SMOOTHED, axis=1)


def medians(values: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """The median over `axes` of what is known, NaN where nothing is."""
    empty = np.isnan(values).all(axis=axes, keepdims=True)
    return np.where(
        empty.squeeze(axes), np.nan, np.nanmedian(np.where(empty, 0, values), axis=axes)
    )


def _noise(logs: np.ndarray) -> float:
    """By how much the noise of the turns alone raises the slowness: of the running medians of one
    member, and of their mean. From the differences of successive cycles, which a state that lasts
    hardly changes."""
    seen = logs[:, ~np.isnan(logs).all(axis=0)]
    spreads = [_spread(np.diff(row[~np.isnan(row)])) for row in seen]
    return NOISE * (float(np.median(spreads or [0.0])) + _spread(np.diff(np.nanmean(seen, axis=0))))


def _spread(steps: np.ndarray) -> float:
    """The standard error of a running median of values that differ by `steps`."""
    if not len(steps):
        return 0.0
    turn = 1.4826 * float(np.median(np.abs(steps))) / math.sqrt(2)
    return 1.25 * turn / math.sqrt(SMOOTHED)
