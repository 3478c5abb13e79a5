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
from rnnbench.planning.repeats import FinishedRun
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
    """The estimate for the runs to do. `left`: their number; `seconds`, `bytes`: their totals;
    `guessed`: number of runs whose time is estimated from other configurations or is a guess.
    `spread`: standard deviation of log run values within a configuration, `GUESS_SPREAD` if
    `degrees_of_freedom` is 0; `borrowed`: whether it includes this machine's other
    configurations."""

    left: int
    seconds: float
    guessed: int
    bytes: float
    spread: float
    degrees_of_freedom: int
    borrowed: bool = False


def forecast(
    left: Mapping[str, int],
    past: Iterable[FinishedRun],
    elsewhere: Callable[[], Iterable[FinishedRun]] = tuple,
    sizes: Sequence[int] = (),
    optional: Collection[str] = (),
    budget: float | None = None,
) -> Forecast:
    """`left`: name of each run to do → samples that it trains in all epochs, 0 if unknown; `past`:
    finished runs of any configurations; `elsewhere`: returns this machine's other finished runs,
    called only if `past` has fewer than `MIN_FREEDOM` degrees of freedom; `sizes`: bytes of the
    files of finished runs; `optional`: the runs beyond the minimum number of repeats, which use no
    more than what is left of `budget` (seconds)."""
    runs = list(past)
    walls: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        if run.wall_seconds is not None:
            walls[configuration_of(run.name)].append(run.wall_seconds)
    means = {configuration: statistics.fmean(values) for configuration, values in walls.items()}
    default = statistics.median(means.values()) if means else GUESS_SECONDS
    of_run = {
        name: means.get(configuration_of(name)) or max(default, samples * SAMPLE_SECONDS)
        for name, samples in left.items()
    }
    needed = sum(seconds for name, seconds in of_run.items() if name not in optional)
    further = sum(of_run.values()) - needed
    if budget is not None:
        spent = sum(run.wall_seconds or 0.0 for run in runs if run.name not in of_run)
        further = min(further, max(0.0, budget - spent - needed))
    seconds = needed + further
    measured = len(left) * (seconds / sum(of_run.values()) if left else 0)
    size = statistics.fmean(sizes) if sizes else GUESS_BYTES
    spread, freedom = run_spread(runs)
    borrowed = freedom < MIN_FREEDOM
    if borrowed:
        spread, freedom = run_spread([*runs, *elsewhere()])
    return Forecast(
        left=len(left),
        seconds=seconds + measured * OVERHEAD_SECONDS,
        guessed=sum(configuration_of(name) not in means for name in left),
        bytes=size * len(left),
        spread=spread if freedom else GUESS_SPREAD,
        degrees_of_freedom=freedom,
        borrowed=borrowed,
    )


def run_spread(runs: Iterable[FinishedRun]) -> tuple[float, int]:
    """The standard deviation of log run values within a configuration, pooled over configurations,
    and its degrees of freedom. Uses only runs that took turns if there are any, because the runs to
    do will take turns too. The value of one of n members is relative to all of them, itself
    included, so its variance is smaller by (n - 1) / n than that of the member; so are the seconds
    of runs of one round that had too few turns. It includes what the state of the machine adds to
    the intervals."""
    usable = [run for run in runs if run.value]
    usable = [run for run in usable if run.company] or usable
    rounds: dict[str, dict[str, float]] = defaultdict(dict)
    for run in usable:
        if run.round and not run.company:
            rounds[run.round][configuration_of(run.name)] = math.log(run.value or 0)
    groups: Mapping[tuple[str, ...], list[tuple[float, float]]] = defaultdict(list)
    for run in usable:
        value, group = math.log(run.value or 0), run.company
        others = rounds.get(run.round or "", {})
        if len(others) > 1:
            value, group = value - statistics.fmean(others.values()), tuple(sorted(others))
        groups[configuration_of(run.name), *group].append((value, run.widening))
    squares, freedom = 0.0, 0
    for (_, *company), values in groups.items():
        if len(values) > 1:
            logs, widenings = zip(*values, strict=True)
            members, of_group = len(company), len(values) - 1
            enlarged = members / (members - 1) if members > 1 else 1.0
            widened = statistics.fmean(widening**2 for widening in widenings)
            squares += statistics.variance(logs) * of_group * enlarged * widened
            freedom += of_group
    return (math.sqrt(squares / freedom), freedom) if freedom else (0.0, 0)


def repeats_for(difference: float, spread: float, power: float = 0.8) -> int | None:
    """The smallest number of runs of each of two configurations that shows a true `difference`
    (0.05: 5 %) at the 95 % level with probability `power`; None if it exceeds 10,000. See
    `power_of`."""
    counts = range(2, MOST_REPEATS + 1)
    index = bisect_left(counts, power, key=lambda runs: power_of(difference, spread, runs))
    return counts[index] if index < len(counts) else None


def power_of(difference: float, spread: float, runs: int) -> float:
    """The probability that the 95 % interval of the ratio of two configurations excludes 1 if they
    differ by `difference`, with n = `runs` runs of each. Computed from the noncentral
    t-distribution with n - 1 degrees of freedom (those of runs paired by block; Welch's are that
    many or more) and noncentrality log(1 + difference) / (spread · √(2/n))."""
    from scipy.special import nctdtr

    if spread == 0:  # all runs took equally long
        return 1.0
    freedom = runs - 1
    noncentrality = math.log1p(difference) / (spread * math.sqrt(2 / runs))
    return 1.0 - float(nctdtr(freedom, noncentrality, student_quantile(0.95, freedom)))
