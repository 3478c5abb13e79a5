"""In which cycles of the rounds the machine was slowed down. No side effects.

A shared machine has states that last from seconds to minutes: a neighbour on the same host slows
every member down, but not equally, although no other process uses our cores. Ratios from such
cycles differ from those of the undisturbed machine, and from hour to hour (block against keras on
one core: 1.53 undisturbed, 1.6 to 1.75 when slowed by a fifth or more).

The slowness of a cycle is the mean, over its members, of how much longer their steps took than
the shortest that are known of their configuration: the lowest twentieth, over all rounds, of the
running median over `SMOOTHED` cycles. A cycle is slowed if this exceeds `SLOWED` by more than the
noise of the turns explains, which moves the lowest twentieth of each member and the mean of all.

If a whole session was slowed, the shortest that is known is slow too. The fixed product
(`rnnworker.fixed_product`) that is timed after each turn can tell: its shortest time depends on the
processor only, and is known for those of `KNOWN`, or from other rounds. A cycle is also slowed if
the product took as much longer. Cycles in which the product is undisturbed may nevertheless be
slowed, for instance by the memory of a neighbour.

The difference between two members plays no part in it, so that the choice of cycles favours no
member.

A slower machine does not always change ratios: a level that differs by a tenth from round to round
may be common to all members. Slowed cycles are left out only if the members were slowed unequally
by more than chance explains (`unequal`), because fewer rounds give wider intervals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import fdtri

SLOWED = 1.07
SMOOTHED = 7  # cycles
LEVEL = 0.05  # quantile
# Seconds of the fixed product on an undisturbed core by processor (vendor, family, model), with the
# OpenBLAS of NumPy 1.26 to 2.4; others, such as NumPy 1.18's (1040 µs), are known from the rounds.
KNOWN = {"AuthenticAMD 25 17": 312e-6}  # measured on two cores in two hours of 2026-11-24
OTHER_BLAS = 2.5  # a product this many times as long has another cause than a neighbour
CELL = 10  # cycles of a round in one state, for its means to count
ALPHA = 0.05
NOISE = 1.645  # standard deviations below which a twentieth of a normal distribution is


class Source(NamedTuple):
    """What the duration of the fixed product depends on."""

    machine: str
    processor: str
    build: str
    device: str


def slowness(
    logs: Sequence[np.ndarray], configurations: Sequence[Sequence[str]]
) -> list[np.ndarray]:
    """For each round, how much slower than undisturbed each of its cycles was (natural logarithm;
    NaN for cycles without a turn).

    **Arguments:**

    - `logs`: for each round, log seconds per step (members × cycles), NaN for no turn.
    - `configurations`: for each round, the configurations of its members, by which their levels are
      known from all rounds.
    """
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


def slowed_cycles(
    logs: Sequence[np.ndarray],
    configurations: Sequence[Sequence[str]],
    products: Sequence[np.ndarray] = (),
    sources: Sequence[Sequence[Source]] = (),
) -> list[frozenset[int]]:
    """For each round, the cycles in which the machine was slowed. Arguments as in `slowness` and
    `slowness_of_products`."""
    by_steps = slowness(logs, configurations)
    unknown = [np.full(slow.shape, np.nan) for slow in by_steps]
    by_product = slowness_of_products(products, sources) if products else unknown
    found = []
    for slow, core, own in zip(by_steps, by_product, logs, strict=True):
        limit = math.log(SLOWED)
        is_slowed = (slow > limit + _noise(own)) | (core > limit)
        found.append(frozenset(np.flatnonzero(is_slowed & ~np.isnan(slow)).tolist()))
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


def unequal(logs: Sequence[np.ndarray], slowed: Sequence[frozenset[int]]) -> bool:
    """Whether the ratios of members differ in the `slowed` cycles of their rounds, on average or by
    more from round to round: an F test of the deviations of the members' logs, relative to those of
    their cycles, from their mean over the other cycles. The arrays have the same members in the
    same order. True if too few of the others are known to tell."""
    cells: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for own, slow in zip(logs, slowed, strict=True):
        relative = own - own.mean(axis=0)  # NaN where a member has no turn
        complete = np.flatnonzero(~np.isnan(relative).any(axis=0))
        is_slow = np.isin(complete, list(slow))
        for state, of_state in enumerate(cells):
            chosen = complete[is_slow == bool(state)]
            if len(chosen) >= CELL:
                of_state.append(np.median(relative[:, chosen], axis=1))
    usual, slow_ones = map(np.array, cells)
    if not len(slow_ones):
        return False
    if len(usual) < 2:
        return True
    mean, members = usual.mean(axis=0), len(logs[0]) - 1
    freedom = members * (len(usual) - 1), members * len(slow_ones)
    expected = ((usual - mean) ** 2).sum() / freedom[0] * (1 + 1 / len(usual))
    found = ((slow_ones - mean) ** 2).sum() / freedom[1]
    return bool(found > expected * fdtri(freedom[1], freedom[0], 1 - ALPHA))


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
