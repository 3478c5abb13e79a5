"""The pooled spread: one estimate for the configurations of a device that have few repeats each.

With three repeats, a paired interval is ± 4.3 standard errors wide, because the spread is estimated
with only two degrees of freedom. Configurations of one model on one device of one machine, measured
in the same blocks, have the same sources of variation, so their spread may be estimated jointly: as
the residual variance of the additive model log seconds = configuration + block, with
(configurations - 1)(blocks - 1) degrees of freedom (Fisher, *Statistical Methods for Research
Workers*, 1925, two-way analysis).

Pooling is the default below five repeats, decided by simulation
(``tests/tables/test_tables_coverage.py``; a spread of 1 to 3 % drawn for each configuration):

- Always pooling covers 94 to 95 % on average, but only 84 to 93 % for the noisiest configurations.
- Therefore a pair uses the pooled spread only if its own spread does not exceed the upper quartile
  expected from the pooled one (an F test), and otherwise the wider of the two intervals. This
  covers 94 to 97 % over all pairs and 92 to 96 % for the noisiest, at 0.5 to 0.9 of the paired
  width.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import fdtri

from rnnbench.tables.stats import dunnett_quantile

POOLED_BELOW = 5  # repeats
F_GUARD = 0.75  # quantile of the F test


@dataclass(frozen=True)
class Spread:
    """`variance` of log seconds between runs of one configuration, without block effects, and the
    `degrees_of_freedom` of the estimate."""

    variance: float
    degrees_of_freedom: int


def spread_from(squares: float, degrees_of_freedom: int) -> Spread | None:
    """The spread from the sum of squares of the residuals; None if no degree of freedom is left."""
    if degrees_of_freedom < 1:
        return None
    return Spread(squares / degrees_of_freedom, degrees_of_freedom)


def pooled_halfwidth(
    pairs: Sequence[float],
    own_halfwidth: float,
    spread: Spread,
    confidence: float,
    comparisons: int,
) -> tuple[float, str] | None:
    """The half-width of the pooled interval of the mean of `pairs` (log a - log b of each common
    block), c·√(2 s²/n), and its method. c is the quantile of Dunnett's test for the number of
    simultaneous `comparisons` with the same configuration (Student's t for one). None if the
    interval from the pairs' own spread is wider and the F test rejects pooling."""
    n = len(pairs)
    variance, degrees_of_freedom = 2 * spread.variance, spread.degrees_of_freedom
    quantile = dunnett_quantile(confidence, comparisons, degrees_of_freedom)
    halfwidth = quantile * math.sqrt(variance / n)
    own = statistics.variance(pairs)
    limit = fdtri(n - 1, degrees_of_freedom, F_GUARD)
    is_noisier = variance == 0 or own / variance > limit
    if own_halfwidth >= halfwidth and is_noisier:
        return None
    return halfwidth, f"pooled over configurations, {degrees_of_freedom} degrees of freedom"
