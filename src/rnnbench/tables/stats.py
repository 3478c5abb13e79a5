"""Intervals for a handful of runs. The run is the unit, never the epoch.

Epochs of one run share its process, its memory layout and its minute of the machine's day,
so they are not independent; a run counts once, with the median of its epoch times. Times
are positive and their errors multiply, so everything is done on logarithms.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

ONE_RUN = "one run: no interval"


@dataclass(frozen=True)
class Interval:
    """An estimate with its interval; `low` and `high` are None where `n` < 2."""

    estimate: float
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True)
class Ratio:
    """A ratio a / b with its interval.

    `method` is ``paired``, ``welch``, ``pooled over cells, … degrees of freedom`` or the words
    ``one run: no interval``;
    `shown_different` says that the interval exists and leaves out 1.
    """

    estimate: float
    low: float | None
    high: float | None
    n_a: int
    n_b: int
    method: str
    shown_different: bool


def run_value(seconds: Sequence[float]) -> float:
    """The one number a run counts with: the median of its timed epochs, in their unit."""
    return statistics.median(seconds)


@lru_cache(maxsize=4096)
def student(confidence: float, freedom: float) -> float:
    """The two-sided quantile of Student's t with `freedom` degrees of freedom."""
    # SciPy is imported where it is first needed: a process beside a timed run does not hold it.
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.5 + confidence / 2))


def difference_interval(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """Mean of `values` as they are (not on logarithms), with Student's t-interval:
    mean ± t(n - 1) · s / √n (Student, Biometrika 6, 1908). For differences, which may be
    negative. Equal values give an interval of width zero."""
    n, mean = len(values), statistics.fmean(values)
    if n < 2:
        return Interval(mean, None, None, n)
    half = _half(statistics.stdev(values) / math.sqrt(n), n - 1, confidence)
    return Interval(mean, mean - half, mean + half, n)


def mean_interval(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """Geometric mean of positive `values` (one per run), with Student's t-interval on the
    logarithm: exp(m ± t(n - 1) · s / √n), m and s mean and standard deviation of log values."""
    logs = difference_interval([math.log(value) for value in values], confidence)
    return Interval(math.exp(logs.estimate), _exp(logs.low), _exp(logs.high), logs.n)


def ratio_interval(
    a: Sequence[float],
    b: Sequence[float],
    blocks_a: Sequence[int] | None = None,
    blocks_b: Sequence[int] | None = None,
    confidence: float = 0.95,
) -> Ratio:
    """The ratio of the geometric means of `a` and `b` (positive, one value per run).

    Where both have one run in each of the same two or more blocks, paired: Student's
    t-interval on the blocks' log a - log b. Otherwise Welch (Biometrika 34, 1947):

        d ± t(ν) · √(u + v),  u = s_a² / n_a,  v = s_b² / n_b,
        ν = (u + v)² / (u² / (n_a - 1) + v² / (n_b - 1))

    on logarithms. With one run on either side there is a ratio and no interval.
    """
    logs_a, logs_b = [math.log(x) for x in a], [math.log(x) for x in b]
    n_a, n_b = len(logs_a), len(logs_b)
    difference = statistics.fmean(logs_a) - statistics.fmean(logs_b)
    if min(n_a, n_b) < 2:
        return Ratio(math.exp(difference), None, None, n_a, n_b, ONE_RUN, False)
    if complete(blocks_a, blocks_b, n_a, n_b):
        assert blocks_a is not None and blocks_b is not None
        pairs = block_differences(a, b, blocks_a, blocks_b)
        method, half = (
            "paired",
            _half(statistics.stdev(pairs) / math.sqrt(n_a), n_a - 1, confidence),
        )
    else:
        method, half = "welch", _welch_half(logs_a, logs_b, confidence)
    low, high = math.exp(difference - half), math.exp(difference + half)
    return Ratio(math.exp(difference), low, high, n_a, n_b, method, not low <= 1 <= high)


def block_differences(
    a: Sequence[float], b: Sequence[float], blocks_a: Sequence[int], blocks_b: Sequence[int]
) -> list[float]:
    """log a - log b, one value per block."""
    by_block = dict(zip(blocks_b, b, strict=True))
    return [math.log(x) - math.log(by_block[block]) for block, x in zip(blocks_a, a, strict=True)]


def complete(a: Sequence[int] | None, b: Sequence[int] | None, n_a: int, n_b: int) -> bool:
    """Whether both sides have exactly one run in each of the same blocks."""
    if a is None or b is None:
        return False
    return len(set(a)) == n_a and len(set(b)) == n_b and set(a) == set(b)


def _welch_half(a: Sequence[float], b: Sequence[float], confidence: float) -> float:
    u, v = statistics.variance(a) / len(a), statistics.variance(b) / len(b)
    if u + v == 0:
        return 0.0
    # Scaled by u + v: the squares of tiny variances would underflow.
    p, q = u / (u + v), v / (u + v)
    freedom = 1 / (p**2 / (len(a) - 1) + q**2 / (len(b) - 1))
    return _half(math.sqrt(u + v), freedom, confidence)


def _half(standard_error: float, freedom: float, confidence: float) -> float:
    return student(confidence, freedom) * standard_error if standard_error > 0 else 0.0


def _exp(value: float | None) -> float | None:
    return None if value is None else math.exp(value)
