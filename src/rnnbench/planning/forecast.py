"""What an experiment will take: runs, time, disk, and repeats to show a difference. Pure."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rnnbench.grid.point import cell_of
from rnnbench.tables.stats import student

GUESS_SECONDS = 60.0
OVERHEAD_SECONDS = 2.0  # of conductor, tracking and scheduling, for each run
GUESS_BYTES = 60_000
# Of a ratio 1.7 %, over 60 rounds on two shared virtual cores (benchmarks/README.md, "Rounds"): of
# either side by √2 less.
GUESS_SPREAD = 0.012
FEW = 4  # degrees of freedom: fewer know a spread to no better than a factor of two
ENVIRONMENT_BYTES = 1_500_000_000
MOST_REPEATS = 10_000


@dataclass(frozen=True)
class Past:
    """A finished run: its share of the wall time, the size of its files, the value that repeats are
    compared by (`running.finished_runs.value_of`; None if it is void), and the configurations that
    took turns with it, including its own: the value is only comparable among the same ones."""

    name: str
    wall_seconds: float | None
    bytes: int
    value: float | None
    company: tuple[str, ...] = ()


@dataclass(frozen=True)
class Forecast:
    """`seconds` for all of `left`; `guessed`: how many of them rest on other cells' runs or
    on a guess. `spread`: standard deviation of log run values within a cell, with `freedom`
    degrees of freedom, of the cells asked for or, where `borrowed`, of this machine's other
    cells as well; `GUESS_SPREAD` where `freedom` is 0."""

    left: int
    seconds: float
    guessed: int
    bytes: float
    spread: float
    freedom: int
    borrowed: bool = False


def forecast(
    left: Sequence[str], past: Iterable[Past], elsewhere: Callable[[], Iterable[Past]] = tuple
) -> Forecast:
    """**Arguments:** `left`: names of the runs to do; `past`: finished runs of any cells;
    `elsewhere`: asked for this machine's other runs where those know too little of the spread."""
    runs = list(past)
    known: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        if run.wall_seconds is not None:
            known[cell_of(run.name)].append(run.wall_seconds)
    means = {cell: statistics.fmean(values) for cell, values in known.items()}
    else_seconds = statistics.median(means.values()) if means else GUESS_SECONDS
    each = [means.get(cell_of(name), else_seconds) + OVERHEAD_SECONDS for name in left]
    size = statistics.fmean(run.bytes for run in runs) if runs else GUESS_BYTES
    spread, freedom = run_spread(runs)
    borrowed = freedom < FEW
    if borrowed:
        spread, freedom = run_spread([*runs, *elsewhere()])
    return Forecast(
        left=len(left),
        seconds=sum(each),
        guessed=sum(cell_of(name) not in means for name in left),
        bytes=size * len(left),
        spread=spread if freedom else GUESS_SPREAD,
        freedom=freedom,
        borrowed=borrowed,
    )


def run_spread(runs: Iterable[Past]) -> tuple[float, int]:
    """The standard deviation of log run values within a cell, pooled over cells, and its
    degrees of freedom; of runs that took turns where there are some, for so will the others."""
    usable = [run for run in runs if run.value]
    cells: Mapping[tuple[str, ...], list[float]] = defaultdict(list)
    for run in [run for run in usable if run.company] or usable:
        cells[cell_of(run.name), *run.company].append(math.log(run.value or 0))
    freedom = sum(len(values) - 1 for values in cells.values())
    squares = sum(
        statistics.variance(values) * (len(values) - 1)
        for values in cells.values()
        if len(values) > 1
    )
    return (math.sqrt(squares / freedom), freedom) if freedom else (0.0, 0)


def repeats_for(difference: float, spread: float, power: float = 0.8) -> int | None:
    """The smallest number of runs of either cell with which a true `difference` (0.05: five
    per cent) is shown at 95 % with chance `power`; None beyond 10,000. See `chance`."""
    low, high = 1, MOST_REPEATS
    if chance(difference, spread, high) < power:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if chance(difference, spread, middle) >= power else (middle, high)
    return high


def chance(difference: float, spread: float, runs: int) -> float:
    """That the 95 % interval of two cells' ratio leaves out 1, where they differ by
    `difference`: the noncentral t-distribution with n - 1 degrees of freedom (those of runs
    paired by block; Welch's are that many or more), its noncentrality
    log(1 + difference) / (spread · √(2/n)), for n `runs` of either."""
    from scipy.special import nctdtr

    freedom = runs - 1
    away = math.log1p(difference) / (spread * math.sqrt(2 / runs))
    return 1.0 - float(nctdtr(freedom, away, student(0.95, freedom)))
