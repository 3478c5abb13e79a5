"""Estimates the time and disk space that an experiment needs, and the number of repeats that shows
a given difference. No side effects."""

from __future__ import annotations

import math
import statistics
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rnnbench.grid.point import configuration_of
from rnnbench.planning.finished import FinishedRun
from rnnbench.tables.ratios import Estimates, Spread
from rnnbench.tables.stats import student_quantile

GUESS_SECONDS = 10.0  # the experiments of conf/experiment take 4 to 20 s per run on two cores
SAMPLE_SECONDS = 4e-4  # and their larger models 1e-4 to 2e-3 s per sample
OVERHEAD_SECONDS = 2.0  # per run, for controller, tracking and scheduling
GUESS_BYTES = 60_000
# The spread of a ratio was 1.7 % over 38 rounds on two shared virtual cores (benchmarks/README.md,
# "Rounds"); the spread of each side is smaller by √2.
GUESS_SPREAD = 0.012
MIN_FREEDOM = 4  # degrees of freedom: with fewer, a spread is uncertain by a factor of two or more
ENVIRONMENT_BYTES = 1_500_000_000
MOST_REPEATS = 10_000


@dataclass(frozen=True)
class Forecast:
    """The estimate for the runs to do.

    - `left`: their number.
    - `seconds`, `bytes`: their totals.
    - `guessed`: number of runs whose time is estimated from other configurations or is a guess.
    - `spread`: standard deviation of log run values within a configuration, `GUESS_SPREAD` if
      `degrees_of_freedom` is 0.
    - `borrowed`: whether the spread includes this machine's other configurations.
    """

    left: int
    seconds: float
    guessed: int
    bytes: float
    spread: float
    degrees_of_freedom: float
    borrowed: bool = False


def forecast(
    left: Mapping[str, int],
    past: Iterable[FinishedRun],
    elsewhere: Callable[[], Iterable[FinishedRun]] = tuple,
    sizes: Sequence[int] = (),
    optional: Collection[str] = (),
    budget: float | None = None,
) -> Forecast:
    """Estimates what the runs that are left will need.

    - `left`: name of each run to do → samples that it trains in all epochs, 0 if unknown.
    - `past`: finished runs of any configurations.
    - `elsewhere`: returns this machine's other finished runs; called only if `past` has fewer than
      `MIN_FREEDOM` degrees of freedom.
    - `sizes`: bytes of the files of finished runs.
    - `optional`: the runs beyond the minimum number of repeats, which use no more than what is left
      of `budget` (seconds).
    """
    runs = list(past)
    walls: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        if run.wall_seconds is not None:
            walls[configuration_of(run.name)].append(run.wall_seconds)
    means = {name: statistics.fmean(seconds) for name, seconds in walls.items()}
    default = statistics.median(means.values() or [GUESS_SECONDS])

    of_run = {}
    for name, samples in left.items():
        guess = max(default, samples * SAMPLE_SECONDS)
        of_run[name] = means.get(configuration_of(name)) or guess
    total = sum(of_run.values())
    needed = sum(seconds for name, seconds in of_run.items() if name not in optional)
    further = total - needed
    if budget is not None:
        spent = sum(run.wall_seconds or 0.0 for run in runs if run.name not in of_run)
        further = min(further, max(0.0, budget - spent - needed))
    seconds = needed + further
    measured = 0.0  # number of runs that fit into the budget
    if left:
        measured = len(left) * (seconds / total)
    size = statistics.fmean(sizes or [GUESS_BYTES])

    spread = spread_of(runs)
    is_borrowed = spread is None or spread.degrees_of_freedom < MIN_FREEDOM
    if is_borrowed:
        spread = spread_of([*runs, *elsewhere()])
    deviation = GUESS_SPREAD
    freedom = 0.0
    if spread:
        deviation = math.sqrt(spread.variance)
        freedom = spread.degrees_of_freedom
    return Forecast(
        left=len(left),
        seconds=seconds + measured * OVERHEAD_SECONDS,
        guessed=sum(configuration_of(name) not in means for name in left),
        bytes=size * len(left),
        spread=deviation,
        degrees_of_freedom=freedom,
        borrowed=is_borrowed,
    )


def spread_of(runs: Iterable[FinishedRun]) -> Spread | None:
    """The spread of the log seconds of `runs` as the estimates see them."""
    return Estimates(run.value for run in runs if run.value is not None).spread()


def repeats_for(difference: float, spread: float, power: float = 0.8) -> int | None:
    """The smallest number of runs of each of two configurations that shows a true difference
    between them; None if it exceeds `MOST_REPEATS`. See `power_of`.

    - `difference`: of the seconds, as a share (0.05: 5 %).
    - `spread`: as in `Forecast`.
    - `power`: the probability that the difference shows at the 95 % level.
    """
    counts = range(2, MOST_REPEATS + 1)
    index = bisect_left(counts, power, key=lambda runs: power_of(difference, spread, runs))
    if index == len(counts):
        return None
    return counts[index]


def power_of(difference: float, spread: float, runs: int) -> float:
    """The probability that the 95 % interval of the ratio of two configurations excludes 1.

    - `difference`, `spread`: as for `repeats_for`.
    - `runs`: the number n of runs of each configuration.

    Computed from the noncentral t-distribution with n - 1 degrees of freedom (those of runs paired
    by block; Welch's are that many or more) and noncentrality
    log(1 + difference) / (spread · √(2/n)).
    """
    from scipy.special import nctdtr

    if spread == 0:  # all runs took equally long
        return 1.0
    freedom = runs - 1
    noncentrality = math.log1p(difference) / (spread * math.sqrt(2 / runs))
    return 1.0 - float(nctdtr(freedom, noncentrality, student_quantile(0.95, freedom)))
