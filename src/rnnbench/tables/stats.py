"""Confidence intervals for a handful of runs. The unit is the run, never the epoch.

The epochs of a run share its process, its memory layout and the state of the machine at that time,
so they are not independent, and each run counts with one value (``records.record.run_seconds``).
Times are positive and their errors are multiplicative, so they are analysed on a logarithmic scale.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from rnnbench.records.interval import Interval


class Spread(NamedTuple):
    """The spread between runs of one configuration, without unit effects.

    - `variance`: of log seconds.
    - `degrees_of_freedom`: of this estimate.
    """

    variance: float
    degrees_of_freedom: float


@lru_cache(maxsize=4096)
def student_quantile(confidence: float, degrees_of_freedom: float) -> float:
    """The two-sided quantile of Student's t distribution.

    - `confidence`: the probability within ± the quantile.
    - `degrees_of_freedom`: need not be a whole number (Welch).
    """
    # Imported lazily: a process next to a timed run should not hold SciPy in memory.
    from scipy.special import stdtrit

    return float(stdtrit(degrees_of_freedom, 0.5 + confidence / 2))


def sidak_confidence(confidence: float, comparisons: int) -> float:
    """The confidence that each of several comparisons needs so that all hold simultaneously with
    `confidence` (Šidák, Journal of the American Statistical Association 62, 1967)."""
    return float(confidence ** (1 / comparisons))


def difference_interval(values: Sequence[float]) -> Interval:
    """The arithmetic mean of `values` with Student's 95 % interval: mean ± t(n - 1) · s / √n
    (Student, Biometrika 6, 1908). Equal values give an interval of width zero."""
    half = None
    if len(values) > 1:
        half = mean_halfwidth(values, 0.95)
    return Interval.around(statistics.fmean(values), half)


def mean_interval(values: Sequence[float]) -> Interval:
    """The geometric mean of positive `values` (one per run) with the `difference_interval` of their
    logarithms."""
    logs = [math.log(value) for value in values]
    return difference_interval(logs).map(math.exp)


def mean_halfwidth(values: Sequence[float], confidence: float) -> float:
    """The half-width of Student's interval of the mean.

    - `values`: two or more.
    - `confidence`: of the interval, from 0 to 1.
    """
    error = statistics.stdev(values) / math.sqrt(len(values))
    return student_quantile(confidence, len(values) - 1) * error


def welch_halfwidth(a: Sequence[float], b: Sequence[float], confidence: float) -> float:
    """The half-width of Welch's interval (Biometrika 34, 1947) of the difference of the means of
    `a` and `b`, two or more values each:

        t(ν) · √(u + v),  u = s_a² / n_a,  v = s_b² / n_b,
        ν = (u + v)² / (u² / (n_a - 1) + v² / (n_b - 1))
    """
    u = statistics.variance(a) / len(a)
    v = statistics.variance(b) / len(b)
    if u + v == 0:
        return 0.0
    # Dividing by u + v prevents an underflow of the squares of tiny variances.
    p = u / (u + v)
    q = v / (u + v)
    inverse_a = p**2 / (len(a) - 1)
    inverse_b = q**2 / (len(b) - 1)
    quantile = student_quantile(confidence, 1 / (inverse_a + inverse_b))
    return quantile * math.sqrt(u + v)
