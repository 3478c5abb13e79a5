"""One spread for the cells of a device, where each alone has too few repeats to know its own.

With three repeats a paired interval is 4.3 standard errors wide, because two degrees of freedom
know the spread badly. Cells of one model on one device of one machine, measured in the same
blocks, share what makes runs differ, so their spread may be estimated together: the residual
variance of an additive model, log seconds = cell + block, with (cells - 1)(blocks - 1) degrees
of freedom (Fisher, *Statistical Methods for Research Workers*, 1925, two-way analysis).

Why it is the default below five repeats (decided by simulation, ``tests/tables/
test_tables_coverage.py``; spreads of 1 to 3 % drawn anew for each cell):

- pooling always covers 94 to 95 % on average, but only 84 to 93 % for the noisiest cells;
- so a pair uses the pooled spread only while its own is not above the upper quartile of what
  the pooled one would give (an F test), and otherwise the wider of the two intervals. That covers
  94 to 97 % over all pairs and 92 to 96 % of the noisiest, at 0.5 to 0.9 of the paired width.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rnnbench.tables.stats import Ratio, student

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

POOLED_BELOW = 5  # repeats
GUARD = 0.75
DEVICE = ["model", "device", "machine"]


@dataclass(frozen=True)
class Spread:
    """`variance` of log seconds between runs of one cell, blocks removed; `freedom`: how many
    degrees of freedom it was estimated with."""

    variance: float
    freedom: int


def pooled_spreads(values: pd.DataFrame, cell: list[str]) -> dict[tuple[Any, ...], Spread]:
    """(model, device, machine) → its spread, where three cells or more have one run in each of
    the same 2 to 4 blocks. `values` as from `run_values`, `cell` its columns that name a cell."""
    import numpy as np

    found = {}
    for key, runs in values.groupby(DEVICE, sort=False):
        blocks = runs["block"].nunique()
        if not 2 <= blocks < POOLED_BELOW or runs.duplicated([*cell, "block"]).any():
            continue
        complete = runs.groupby(cell, sort=False)["block"].transform("count") == blocks
        whole = runs[complete].sort_values([*cell, "block"])
        cells = len(whole) // blocks
        if cells < 3:
            continue
        logs = np.log(whole["seconds"].to_numpy(dtype=float)).reshape(cells, blocks)
        found[key] = spread_of(logs)
    return found


def spread_of(logs: np.ndarray) -> Spread:
    """The residual spread of log seconds, an array of cells × blocks."""
    cells, blocks = logs.shape
    means = logs.mean(axis=1, keepdims=True) + logs.mean(axis=0, keepdims=True) - logs.mean()
    freedom = (cells - 1) * (blocks - 1)
    return Spread(float(((logs - means) ** 2).sum() / freedom), freedom)


def shared(
    spreads: Mapping[tuple[Any, ...], Spread], a: Mapping[Any, Any], b: Mapping[Any, Any]
) -> Spread | None:
    """The spread that two cells share: none where they are on different devices."""
    keys = [tuple(cell[name] for name in DEVICE) for cell in (a, b)]
    return spreads.get(keys[0]) if keys[0] == keys[1] else None


def pooled(ratio: Ratio, pairs: list[float], spread: Spread, confidence: float = 0.95) -> Ratio:
    """`ratio` (paired) with the pooled interval ± t(ν)·√(2 s²/n), or the wider of the two where
    the spread of its own `pairs` (log a - log b by block) speaks against pooling."""
    n, middle = len(pairs), math.log(ratio.estimate)
    variance = 2 * spread.variance
    half = student(confidence, spread.freedom) * math.sqrt(variance / n)
    own = statistics.variance(pairs)
    wider = ratio.high is None or math.log(ratio.high) - middle >= half
    doubtful = variance == 0 or own / variance > fisher(GUARD, n - 1, spread.freedom)
    if wider and doubtful:
        return ratio
    low, high = math.exp(middle - half), math.exp(middle + half)
    method = f"pooled over cells, {spread.freedom} degrees of freedom"
    return Ratio(ratio.estimate, low, high, ratio.n_a, ratio.n_b, method, not low <= 1 <= high)


def fisher(share: float, above: float, below: float) -> float:
    """The quantile of the F distribution below which `share` of it lies."""
    from scipy.special import fdtri

    return float(fdtri(above, below, share))
