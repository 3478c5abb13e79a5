"""How much the machine was slowed down in each cycle of the rounds, and ratios for the undisturbed
machine. No side effects.

A shared machine has states that last from seconds to minutes: a neighbour on the same host slows
every member down, but not equally, although no other process uses our cores. Ratios from such
cycles differ from those of the undisturbed machine, and from hour to hour (block against keras on
one core: 1.48 undisturbed, 1.6 to 1.75 when slowed by a fifth or more).

The slowness of a cycle is the mean, over its members, of how much longer their steps took than
the shortest that are known of their configuration: the lowest twentieth, over all rounds, of the
running median over `SMOOTHED` cycles. The noise of the turns moves the lowest twentieth of each
member and the mean of all; what it explains, by the least noisy round, is subtracted.

If a whole session was slowed, the shortest that is known is slow too. The fixed product
(`rnnworker.fixed_product`) that is timed after each turn can tell: its shortest time depends on the
processor only, and is known for those of `KNOWN`, or from other rounds. The slowness is at least
that of the product. Cycles in which the product is undisturbed may nevertheless be slowed, for
instance by the memory of a neighbour.

Ratios of the undisturbed machine are estimated by analysis of covariance (`covariance`) with the
slowness of the rounds as the covariate. Leaving out the slowed cycles instead leaves too few of
them in a noisy hour: intervals of ± 12 %, and ratios from a handful of cycles.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rnnbench.tables.stats import student_quantile

SLOWED = 1.07
SMOOTHED = 7  # cycles
LEVEL = 0.05  # quantile
# Seconds of the fixed product on an undisturbed core by processor (vendor, family, model), with the
# OpenBLAS of NumPy 1.26 to 2.4; others, such as NumPy 1.18's (1040 µs), are known from the rounds.
KNOWN = {"AuthenticAMD 25 17": 312e-6}  # measured on two cores in two hours of 2026-11-24
OTHER_BLAS = 2.5  # a product this many times as long has another cause than a neighbour
# Standard deviation of how differently the log seconds of members depend on the slowness. Measured
# on two cores in 51 rounds of four members of 2026-11-24: 0.12 (0.16 on one core, 0.05 on two).
UNEQUAL = 0.12
ITERATIONS = 10  # the variance and the prior depend on each other
CONFIDENCE = 0.95
NOISE = 1.645  # standard deviations below which a twentieth of a normal distribution is


class Source(NamedTuple):
    """What the duration of the fixed product depends on."""

    machine: str
    processor: str
    build: str
    device: str


class Adjusted(NamedTuple):
    """The effects of members on the undisturbed machine (members × rounds, log), and the factor by
    which the extrapolation widens the intervals of their means."""

    effects: np.ndarray
    widening: float


def slowness(
    logs: Sequence[np.ndarray],
    configurations: Sequence[Sequence[str]],
    products: Sequence[np.ndarray] = (),
    sources: Sequence[Sequence[Source]] = (),
) -> list[np.ndarray]:
    """For each round, how much slower than undisturbed each of its cycles was (natural logarithm;
    NaN for cycles without a turn).

    **Arguments:**

    - `logs`: for each round, log seconds per step (members × cycles), NaN for no turn.
    - `configurations`: for each round, the configurations of its members, by which their levels are
      known from all rounds.
    - `products`, `sources`: as in `slowness_of_products`.
    """
    by_steps = _slowness_of_steps(logs, configurations)
    by_product = [np.full(steps.shape, math.nan) for steps in by_steps]
    if products:
        by_product = slowness_of_products(products, sources)
    noise: dict[tuple[str, ...], float] = {}
    for own, names in zip(logs, configurations, strict=True):
        kind = tuple(sorted(names))
        noise[kind] = min(noise.get(kind, math.inf), _noise(own))
    return [
        np.where(np.isnan(steps), np.nan, np.fmax(steps - noise[tuple(sorted(names))], core))
        for steps, core, names in zip(by_steps, by_product, configurations, strict=True)
    ]


def covariance(effects: np.ndarray, slow: np.ndarray) -> Adjusted:
    """Analysis of covariance: the `effects` of members (members × rounds, log) as a line in the
    slowness `slow` of the rounds, taken to slowness 0.

    The slopes have a normal prior with the standard deviation `UNEQUAL` (ridge regression): a few
    rounds that were slowed alike say little about them, and then the interval becomes wider by what
    such slopes could change, instead of the mean by what chance suggests.
    """
    members, rounds = effects.shape
    if rounds < 2 or members < 2:
        return Adjusted(effects, 1.0)
    mean, centred = float(slow.mean()), slow - slow.mean()
    squares = float((centred**2).sum())
    residuals = effects - effects.mean(axis=0)
    residuals -= residuals.mean(axis=1, keepdims=True)
    slopes, share, prior = np.zeros(members), 0.0, math.inf
    for _ in range(ITERATIONS):
        left = residuals - slopes[:, None] * centred
        variance = float((left**2).sum()) / ((members - 1) * (rounds - 1 - share))
        if not variance:
            break
        prior = variance / UNEQUAL**2
        slopes = residuals @ centred / (squares + prior)
        share = squares / (squares + prior)
    freedom = rounds - 1, rounds - 1 - share
    variance_of_mean = (1 + rounds * mean**2 / (squares + prior)) * freedom[0] / freedom[1]
    quantiles = [student_quantile(CONFIDENCE, degrees) for degrees in freedom]
    widening = math.sqrt(variance_of_mean) * quantiles[1] / quantiles[0]
    return Adjusted(effects - slopes[:, None] * slow, widening)


def _slowness_of_steps(
    logs: Sequence[np.ndarray], configurations: Sequence[Sequence[str]]
) -> list[np.ndarray]:
    """The slowness of the cycles by the steps of the members, including their noise. Arguments as
    in `slowness`."""
    smoothed = [_running_median(own) for own in logs]
    by_configuration: dict[str, list[np.ndarray]] = {}
    for own, names in zip(smoothed, configurations, strict=True):
        for name, row in zip(names, own, strict=True):
            by_configuration.setdefault(name, []).append(row[~np.isnan(row)])
    level: dict[str, float] = {}
    known: dict[str, int] = {}
    for name, rows in by_configuration.items():
        values = np.concatenate(rows)
        known[name] = len(values)
        level[name] = float(np.quantile(values, LEVEL)) if len(values) else math.nan
    found = []
    for own, names in zip(smoothed, configurations, strict=True):
        excess = own - np.array([level[name] for name in names])[:, None]
        # The level of a configuration that has few rounds may itself be a slowed one.
        weights = np.array([known[name] for name in names], float)[:, None] * ~np.isnan(excess)
        total = weights.sum(axis=0)
        with np.errstate(invalid="ignore"):
            found.append(np.where(total > 0, np.nansum(excess * weights, axis=0) / total, np.nan))
    return found


def slowness_of_products(
    products: Sequence[np.ndarray], sources: Sequence[Sequence[Source]]
) -> list[np.ndarray]:
    """For each round, how much longer than on an undisturbed core the fixed product took in each
    cycle (natural logarithm, the median of members and `SMOOTHED` cycles; NaN if unknown).

    **Arguments:**

    - `products`: for each round, log seconds of the product (members × cycles), NaN for none.
    - `sources`: for each round, where its members ran. Their levels are known from all rounds.
    """
    levels: dict[Source, float] = {}
    values: dict[Source, list[np.ndarray]] = {}
    for own, ran in zip(products, sources, strict=True):
        for source, row in zip(ran, own, strict=True):
            values.setdefault(source, []).append(row[~np.isnan(row)])
    for source, rows in values.items():
        seen = np.concatenate(rows)
        levels[source] = float(np.quantile(seen, LEVEL)) if len(seen) else math.nan
        known = math.log(KNOWN.get(source.processor, math.inf))
        if known < levels[source] < known + math.log(OTHER_BLAS):
            levels[source] = known
    found = []
    for own, ran in zip(products, sources, strict=True):
        excess = own - np.array([levels[source] for source in ran])[:, None]
        found.append(_median(_windows(excess), (0, 2)))
    return found


def _running_median(logs: np.ndarray) -> np.ndarray:
    """The median of `SMOOTHED` cycles around each; fewer at the ends."""
    return _median(_windows(logs), (2,))


def _windows(logs: np.ndarray) -> np.ndarray:
    """The `SMOOTHED` cycles around each (members × cycles × `SMOOTHED`), NaN beyond the ends."""
    half = SMOOTHED // 2
    padded = np.pad(logs, ((0, 0), (half, half)), constant_values=np.nan)
    return np.lib.stride_tricks.sliding_window_view(padded, SMOOTHED, axis=1)


def _median(values: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
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
