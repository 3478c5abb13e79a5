"""Cross-checks of a ratio that need more repeats: bootstrap interval and rank test.

Reports show them next to the t-interval, which they never replace, and state disagreements.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import comb

BOOTSTRAP_FROM = 10  # repeats; with fewer, the interval is too narrow (85 % coverage at three)
RANKS_FROM = 5  # repeats; with three, no arrangement of ranks reaches 5 %
RESAMPLES = 2000
MAX_EXACT_PAIRS = 1600  # above this, or with ties, scipy computes the test


def bootstrap_interval(
    a: Sequence[float], b: Sequence[float], confidence: float = 0.95, seed: int = 0
) -> tuple[float, float] | None:
    """The percentile bootstrap interval of the ratio of the geometric means a / b (Efron, Annals of
    Statistics 7, 1979), resampling the runs of both sides. None if a side has fewer than ten
    runs."""
    import numpy as np

    if min(len(a), len(b)) < BOOTSTRAP_FROM:
        return None
    generator = np.random.default_rng(seed)
    means = [
        generator.choice(np.log(side), size=(RESAMPLES, len(side))).mean(axis=1) for side in (a, b)
    ]
    tail = 100 * (1 - confidence) / 2
    low, high = np.percentile(means[0] - means[1], [tail, 100 - tail])
    return float(np.exp(low)), float(np.exp(high))


def rank_p(a: Sequence[float], b: Sequence[float]) -> float | None:
    """The two-sided p-value of the Mann–Whitney test (Annals of Mathematical Statistics 18, 1947),
    whose null hypothesis is that a run of `a` is as likely above as below a run of `b`. None if a
    side has fewer than five runs."""
    import numpy as np

    if min(len(a), len(b)) < RANKS_FROM:
        return None
    differences = np.subtract.outer(np.asarray(a), np.asarray(b))
    if (differences == 0).any() or len(a) * len(b) > MAX_EXACT_PAIRS:
        from scipy.stats import mannwhitneyu

        return float(mannwhitneyu(a, b, alternative="two-sided").pvalue)
    below, above = int((differences < 0).sum()), int((differences > 0).sum())
    return min(1.0, 2 * float(np.sum(_distribution(len(a), len(b))[: min(below, above) + 1])))


@lru_cache(maxsize=64)
def _distribution(n: int, m: int) -> tuple[float, ...]:
    """The probability of each value of U (0 to n·m) under the null hypothesis without ties: the
    coefficients of the Gaussian binomial, the product of (1 - q^(m+i)) / (1 - q^i) for i = 1 to n,
    divided by their sum."""
    counts = [1] + [0] * (n * m)
    for i in range(1, n + 1):
        for power in range(n * m, m + i - 1, -1):
            counts[power] -= counts[power - m - i]
        for power in range(i, n * m + 1):
            counts[power] += counts[power - i]
    return tuple(count / comb(n + m, n) for count in counts)
