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
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import fdtri

from rnnbench.tables.stats import Ratio, dunnett_quantile

POOLED_BELOW = 5  # repeats
F_GUARD = 0.75  # quantile of the F test
DEVICE = ["model", "device", "machine"]


@dataclass(frozen=True)
class Spread:
    """`variance` of log seconds between runs of one configuration, without block effects, and the
    `degrees_of_freedom` of the estimate."""

    variance: float
    degrees_of_freedom: int


def pooled_spreads(
    values: pd.DataFrame, axes: list[str], below: float = POOLED_BELOW
) -> dict[tuple[Any, ...], Spread]:
    """(model, device, machine) → pooled spread. It exists if at least three configurations have
    runs in two or more blocks, none has runs in `below` or more blocks, and none has two runs in a
    block. A missing run only removes that block from its configuration. `values` is the table of
    `run_values`, `axes` are its columns that identify a configuration."""
    spreads = {}
    logs = values["effect"].fillna(np.log(values["seconds"]))
    for key, runs in values.assign(log=logs).groupby(DEVICE, sort=False):
        repeats = runs.groupby(axes, sort=False)["pairing"].transform("count")
        if not 2 <= repeats.max() < below or runs.duplicated([*axes, "pairing"]).any():
            continue
        repeated = runs[repeats > 1]
        numbers = repeated.groupby(axes, sort=False).ngroup()
        if numbers.nunique() >= 3:
            numbered = repeated.assign(configuration=numbers)
            table = numbered.pivot(index="configuration", columns="pairing", values="log")
            spread = spread_of(table.to_numpy(dtype=float))
            if spread is not None:
                spreads[key] = spread
    return spreads


def spread_of(logs: np.ndarray) -> Spread | None:
    """The residual spread of log seconds (configurations × blocks, NaN for missing runs): a least-
    squares fit of the additive model, whose degrees of freedom are the number of runs minus its
    rank. None if no degree of freedom is left."""
    rows, blocks = np.nonzero(~np.isnan(logs))
    design = np.hstack([np.eye(logs.shape[0])[rows], np.eye(logs.shape[1])[blocks]])
    values = logs[rows, blocks]
    fitted, _, rank, _ = np.linalg.lstsq(design, values, rcond=None)
    degrees_of_freedom = len(values) - int(rank)
    if degrees_of_freedom < 1:
        return None
    squares = float(((values - design @ fitted) ** 2).sum())
    return Spread(squares / degrees_of_freedom, degrees_of_freedom)


def shared_spread(
    spreads: Mapping[tuple[Any, ...], Spread], a: Mapping[Any, Any], b: Mapping[Any, Any]
) -> Spread | None:
    """The pooled spread of two configurations; None if they are on different devices."""
    key_a, key_b = (tuple(side[name] for name in DEVICE) for side in (a, b))
    return spreads.get(key_a) if key_a == key_b else None


def pooled(
    ratio: Ratio, pairs: list[float], spread: Spread, confidence: float = 0.95, comparisons: int = 1
) -> Ratio:
    """The ratio with the pooled interval: mean of `pairs` (log a - log b of each common block)
    ± c·√(2 s²/n). c is the quantile of Dunnett's test for the number of simultaneous `comparisons`
    with the same configuration (Student's t for one). Returns `ratio`, which has the interval from
    the pairs' own spread, if that is wider and the F test rejects pooling."""
    n, mean = len(pairs), statistics.fmean(pairs)
    variance, degrees_of_freedom = 2 * spread.variance, spread.degrees_of_freedom
    quantile = dunnett_quantile(confidence, comparisons, degrees_of_freedom)
    halfwidth = quantile * math.sqrt(variance / n)
    own = statistics.variance(pairs)
    is_wider = ratio.high is None or math.log(ratio.high / ratio.estimate) >= halfwidth
    is_noisier = variance == 0 or own / variance > f_quantile(F_GUARD, n - 1, degrees_of_freedom)
    if is_wider and is_noisier:
        return ratio
    low, high = math.exp(mean - halfwidth), math.exp(mean + halfwidth)
    method = f"pooled over configurations, {degrees_of_freedom} degrees of freedom"
    return Ratio(math.exp(mean), low, high, method)


def f_quantile(probability: float, numerator: float, denominator: float) -> float:
    """The quantile of the F distribution with `numerator` and `denominator` degrees of freedom."""
    return float(fdtri(numerator, denominator, probability))
