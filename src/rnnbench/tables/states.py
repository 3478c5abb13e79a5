"""In which cycles of the rounds the machine was slowed down. No side effects.

A shared machine has states that last from seconds to minutes: a neighbour on the same host slows
every member down, but not equally, although no other process uses our cores. Ratios from such
cycles differ from those of the undisturbed machine, and from hour to hour (block against keras on
one core: 1.53 undisturbed, 1.6 to 1.75 when slowed by a fifth or more).

The slowness of a cycle is the mean, over its members, of how much longer their steps took than
the shortest that are known of their configuration: the lowest twentieth, over all rounds, of the
running median over `SMOOTHED` cycles. A cycle is slowed if this exceeds `SLOWED` by more than the
noise of the turns explains, which moves the lowest twentieth of each member and the mean of all.
The difference between two members plays no part in it, so that the choice of cycles favours no
member.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

SLOWED = 1.07
SMOOTHED = 7  # cycles
LEVEL = 0.05  # quantile
NOISE = 1.645  # standard deviations below which a twentieth of a normal distribution is


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
    logs: Sequence[np.ndarray], configurations: Sequence[Sequence[str]]
) -> list[frozenset[int]]:
    """For each round, the cycles in which the machine was slowed. Arguments as in `slowness`."""
    return [
        frozenset(np.flatnonzero(slow > math.log(SLOWED) + _noise(own)).tolist())
        for slow, own in zip(slowness(logs, configurations), logs, strict=True)
    ]


def _running_median(logs: np.ndarray) -> np.ndarray:
    """The median of `SMOOTHED` cycles around each; fewer at the ends."""
    half = SMOOTHED // 2
    padded = np.pad(logs, ((0, 0), (half, half)), constant_values=np.nan)
    windows = np.lib.stride_tricks.sliding_window_view(padded, SMOOTHED, axis=1)
    median = np.full(logs.shape, np.nan)
    seen = ~np.isnan(windows).all(axis=2)
    median[seen] = np.nanmedian(windows[seen], axis=1)
    return median


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
