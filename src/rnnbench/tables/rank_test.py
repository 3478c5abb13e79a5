"""Second opinions on a ratio that need more repeats: bootstrap and rank test.

They stand beside the t-interval and never replace it; where they disagree, the page says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import comb

BOOTSTRAP_FROM = 10  # repeats; below, resampling too few runs is too narrow (85 % at three)
RANKS_FROM = 5  # repeats; below, no arrangement of ranks reaches 5 %
RESAMPLES = 2000
EXACT = 1600  # pairs of runs: beyond, and where runs tie, scipy decides by the normal law


def bootstrap_interval(
    a: Sequence[float], b: Sequence[float], confidence: float = 0.95, seed: int = 0
) -> tuple[float, float] | None:
    """The percentile bootstrap interval of the ratio of geometric means a / b over runs (Efron,
    Annals of Statistics 7, 1979), both sides resampled; None below ten runs on a side."""
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
    """The two-sided p of Mann and Whitney's test (Annals of Mathematical Statistics 18, 1947)
    that a run of `a` is as likely above as below a run of `b`; None below five runs on a side."""
    import numpy as np

    if min(len(a), len(b)) < RANKS_FROM:
        return None
    gaps = np.subtract.outer(np.asarray(a), np.asarray(b))
    if (gaps == 0).any() or len(a) * len(b) > EXACT:
        from scipy.stats import mannwhitneyu

        return float(mannwhitneyu(a, b, alternative="two-sided").pvalue)
    below, above = int((gaps < 0).sum()), int((gaps > 0).sum())
    return min(1.0, 2 * float(np.sum(_distribution(len(a), len(b))[: min(below, above) + 1])))


@lru_cache(maxsize=64)
def _distribution(n: int, m: int) -> tuple[float, ...]:
    """The probability of each value of U, 0 to n·m, where nothing differs and nothing ties: the
    coefficients of the Gaussian binomial, product of (1 - q^(m+i)) / (1 - q^i), i = 1 to n."""
    counts = [1] + [0] * (n * m)
    for i in range(1, n + 1):
        for power in range(n * m, m + i - 1, -1):
            counts[power] -= counts[power - m - i]
        for power in range(i, n * m + 1):
            counts[power] += counts[power - i]
    return tuple(count / comb(n + m, n) for count in counts)
