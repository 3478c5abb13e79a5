"""Confidence intervals for a handful of runs. The unit is the run, never the epoch.

The epochs of a run share its process, its memory layout and the state of the machine at that time,
so they are not independent, and each run counts with one value (``records.record.run_seconds``).
Times are positive and their errors are multiplicative, so they are analysed on a logarithmic scale.

With three repeats, a paired interval is ± 4.3 standard errors wide, because the spread is estimated
with only two degrees of freedom. Configurations of one model on one device of one machine, measured
in the same blocks, have the same sources of variation, so their spread may be pooled: the residual
variance of the additive model log seconds = configuration + block, with (configurations - 1)
(blocks - 1) degrees of freedom (Fisher, *Statistical Methods for Research Workers*, 1925, two-way
analysis). Pooling is the default below five repeats, decided by simulation
(``tests/tables/test_tables_estimates.py``; a spread of 1 to 3 % drawn for each configuration):

- Always pooling covers 94 to 95 % on average, but only 84 to 93 % for the noisiest configurations.
- Therefore a pair uses the pooled spread only if its own spread does not exceed the upper quartile
  expected from the pooled one (an F test), and otherwise the wider of the two intervals. This
  covers 94 to 97 % over all pairs and 92 to 96 % for the noisiest, at 0.5 to 0.9 of the paired
  width.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

ONE_RUN = "one run: no interval"
F_GUARD = 0.75  # quantile of the F test


@dataclass(frozen=True)
class Interval:
    """An estimate with its interval.

    - `estimate`: in the unit of what is estimated, as are the ends.
    - `low`, `high`: the ends; None for a single value.
    """

    estimate: float
    low: float | None
    high: float | None

    @classmethod
    def around(cls, estimate: float, half: float | None) -> Interval:
        """A symmetric interval.

        - `estimate`: its middle.
        - `half`: its half-width; None for a single value, which has no interval.
        """
        if half is None:
            return Interval(estimate, None, None)
        return Interval(estimate, estimate - half, estimate + half)

    def map(self, function: Callable[[float], float]) -> Interval:
        """The interval of a monotonic `function` of the estimate."""
        if self.low is None or self.high is None:
            return Interval(function(self.estimate), None, None)
        low, high = sorted((function(self.low), function(self.high)))
        return Interval(function(self.estimate), low, high)

    def scaled(self, factor: float) -> Interval:
        """The interval of `factor` times the estimate."""
        return self.map(lambda value: value * factor)

    def excludes(self, value: float) -> bool:
        """Whether the interval exists and does not contain `value`."""
        if self.low is None or self.high is None:
            return False
        return not self.low <= value <= self.high

    def columns(self, name: str, low: str = "", high: str = "") -> dict[str, Any]:
        """The estimate and the ends as columns.

        - `name`: of the column of the estimate.
        - `low`, `high`: of those of the ends; ``NAME_low`` and ``NAME_high`` if empty.
        """
        return {
            name: self.estimate,
            low or f"{name}_low": self.low,
            high or f"{name}_high": self.high,
        }


class Spread(NamedTuple):
    """The spread between runs of one configuration, without unit effects.

    - `variance`: of log seconds.
    - `degrees_of_freedom`: of this estimate.
    """

    variance: float
    degrees_of_freedom: int


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


@lru_cache(maxsize=4096)
def dunnett_quantile(confidence: float, comparisons: int, degrees_of_freedom: float) -> float:
    """The two-sided quantile of Dunnett's comparison of several means with the mean of a control,
    for equal numbers of runs and a common spread (Dunnett, Journal of the American Statistical
    Association 50, 1955): the c with

        P(max |Z_i - Z_0| ≤ c √2 S) = `confidence`,  Z normal,  S² = χ²(ν) / ν.

    - `comparisons`: the number of means that are compared with the control.
    - `degrees_of_freedom`: ν, those of the common spread.

    It is Student's t for a single comparison. ``scipy.stats.dunnett`` only supports samples without
    blocks, and ``scipy.stats.multivariate_t``, which has this probability, integrates at random: it
    is 3 to 40 times slower, and its fifth digit varies.
    """
    if comparisons < 2:
        return student_quantile(confidence, degrees_of_freedom)
    from scipy.optimize import brentq

    def excess(c: float) -> float:
        return _probability_within(c, comparisons, degrees_of_freedom) - confidence

    # The quantile lies between Student's t for one comparison and Bonferroni's bound.
    low = student_quantile(confidence, degrees_of_freedom)
    high = student_quantile(1 - (1 - confidence) / comparisons, degrees_of_freedom)
    return float(brentq(excess, 0.99 * low, 1.01 * high))


def _probability_within(c: float, comparisons: int, degrees_of_freedom: float) -> float:
    """P(max |Z_i - Z_0| ≤ c √2 S) by Gaussian quadrature: Hermite over Z_0, Legendre over the
    quantiles of S.

    `c`, `comparisons`, `degrees_of_freedom`: see `dunnett_quantile`. The error is about 1e-4.
    """
    import numpy as np
    from scipy.special import chdtri, ndtr

    z, z_weights = np.polynomial.hermite_e.hermegauss(80)
    u, u_weights = np.polynomial.legendre.leggauss(80)
    chi_squared = chdtri(degrees_of_freedom, (1 - u) / 2)
    limit = c * np.sqrt(2 * chi_squared / degrees_of_freedom)[:, None]
    inside_once = ndtr(z + limit) - ndtr(z - limit)
    inside = inside_once**comparisons
    return float((u_weights / 2) @ inside @ (z_weights / z_weights.sum()))


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


def is_noisier(variance: float, freedom: int, pooled: Spread) -> bool:
    """Whether the `variance` of the differences of a pair, with `freedom` degrees of freedom,
    rejects the `pooled` variance of one side (an F test)."""
    from scipy.special import fdtri

    if pooled.variance == 0:
        return True
    limit = fdtri(freedom, pooled.degrees_of_freedom, F_GUARD)
    return bool(variance / (2 * pooled.variance) > limit)
