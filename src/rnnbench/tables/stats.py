"""Intervals for a handful of runs. The run is the unit, never the epoch.

Epochs of one run share its process, its memory layout and its minute of the machine's day,
so they are not independent; a run counts once (``records.record.run_value``). Times
are positive and their errors multiply, so everything is done on logarithms.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache

ONE_RUN = "one run: no interval"
PAIRED_FROM = 3  # common blocks, where a side has others beside; two give Student's t of 12.7


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

    `method` is ``paired``, ``paired on … common blocks``, ``welch``, ``pooled over cells, …
    degrees of freedom`` or the words ``one run: no interval``; `n_a` and `n_b`: runs that
    entered; `shown_different` says that the interval exists and leaves out 1.
    """

    estimate: float
    low: float | None
    high: float | None
    n_a: int
    n_b: int
    method: str
    shown_different: bool


@lru_cache(maxsize=4096)
def student(confidence: float, freedom: float) -> float:
    """The two-sided quantile of Student's t with `freedom` degrees of freedom."""
    # SciPy is imported where it is first needed: a process beside a timed run does not hold it.
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.5 + confidence / 2))


def together(confidence: float, among: int) -> float:
    """The confidence that each of `among` comparisons needs so that all of them hold with
    `confidence` (Šidák, Journal of the American Statistical Association 62, 1967)."""
    return float(confidence ** (1 / among))


@lru_cache(maxsize=4096)
def dunnett(confidence: float, among: int, freedom: float) -> float:
    """The two-sided quantile of Dunnett's comparison of `among` means with one and the same other,
    all of as many runs, with a common spread of `freedom` degrees of freedom (Dunnett, Journal of
    the American Statistical Association 50, 1955): the c with

        P(max |Z_i - Z_0| ≤ c √2 S) = `confidence`,  Z normal,  S² = χ²(ν) / ν.

    ``scipy.stats.dunnett`` has it for samples without blocks only. Student's for one comparison.
    """
    if among < 2:
        return student(confidence, freedom)
    from scipy.optimize import brentq

    def missing(c: float) -> float:
        return _all_within(c, among, freedom) - confidence

    # Above Student's for one comparison, below his for all of them one by one (Bonferroni).
    least, most = student(confidence, freedom), student(1 - (1 - confidence) / among, freedom)
    return float(brentq(missing, 0.99 * least, 1.01 * most))


def _all_within(c: float, among: int, freedom: float) -> float:
    """P(max |Z_i - Z_0| ≤ c √2 S) by Gauss's rules: Hermite's over Z_0, Legendre's over the
    quantiles of S; right to some 1e-4."""
    import numpy as np
    from scipy.special import chdtri, ndtr

    z, of_z = np.polynomial.hermite_e.hermegauss(80)
    u, of_u = np.polynomial.legendre.leggauss(80)
    reach = c * np.sqrt(2 * chdtri(freedom, (1 - u) / 2) / freedom)[:, None]
    inside = (ndtr(z + reach) - ndtr(z - reach)) ** among
    return float((of_u / 2) @ inside @ (of_z / of_z.sum()))


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
    blocks_a: Sequence[Hashable] | None = None,
    blocks_b: Sequence[Hashable] | None = None,
    confidence: float = 0.95,
) -> Ratio:
    """The ratio of the geometric means of `a` and `b` (positive, one value per run).

    Where both have a run in each of `PAIRED_FROM` common blocks, or in all of the same two or more,
    paired: Student's t-interval on log a - log b of the common blocks; a run whose block the other
    side lacks does not enter, because it was measured at another time. Which blocks are there
    decides, never what was measured. Otherwise Welch (Biometrika 34, 1947) on all runs:

        d ± t(ν) · √(u + v),  u = s_a² / n_a,  v = s_b² / n_b,
        ν = (u + v)² / (u² / (n_a - 1) + v² / (n_b - 1))

    on logarithms. With one run on either side there is a ratio and no interval.
    """
    pairs = block_differences(a, b, blocks_a, blocks_b)
    whole = len(pairs) == len(a) == len(b)
    if len(pairs) >= (2 if whole else PAIRED_FROM):
        mean = difference_interval(pairs, confidence)
        method = "paired" if whole else f"paired on {len(pairs)} common blocks"
        return _ratio(mean, len(pairs), len(pairs), method)
    logs_a, logs_b = [math.log(x) for x in a], [math.log(x) for x in b]
    difference = statistics.fmean(logs_a) - statistics.fmean(logs_b)
    if min(len(a), len(b)) < 2:
        return _ratio(Interval(difference, None, None, 1), len(a), len(b), ONE_RUN)
    half = _welch_half(logs_a, logs_b, confidence)
    mean = Interval(difference, difference - half, difference + half, min(len(a), len(b)))
    return _ratio(mean, len(a), len(b), "welch")


def block_differences(
    a: Sequence[float],
    b: Sequence[float],
    blocks_a: Sequence[Hashable] | None,
    blocks_b: Sequence[Hashable] | None,
) -> list[float]:
    """log a - log b, one value per block that both have; none where a side has two runs in a block,
    which then is not one time of measuring."""
    if blocks_a is None or blocks_b is None:
        return []
    by_block = dict(zip(blocks_b, b, strict=True))
    if len(by_block) < len(b) or len(set(blocks_a)) < len(a):
        return []
    return [
        math.log(x) - math.log(by_block[block])
        for block, x in zip(blocks_a, a, strict=True)
        if block in by_block
    ]


def _ratio(logs: Interval, n_a: int, n_b: int, method: str) -> Ratio:
    """The ratio of an interval on logarithms."""
    low, high = _exp(logs.low), _exp(logs.high)
    shown = low is not None and high is not None and not low <= 1 <= high
    return Ratio(math.exp(logs.estimate), low, high, n_a, n_b, method, shown)


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
