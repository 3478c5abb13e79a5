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

from rnnbench.tables.stats import Ratio, dunnett

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


def pooled_spreads(
    values: pd.DataFrame, cell: list[str], below: float = POOLED_BELOW
) -> dict[tuple[Any, ...], Spread]:
    """(model, device, machine) → its spread, where three cells or more have runs in two blocks or
    more, none in `below` or more, and at most one in each. A run that is missing costs
    its cell nothing but that block. `values` as from `run_values`, `cell` its columns that name
    a cell."""
    import numpy as np

    found = {}
    logs = values["effect"].fillna(np.log(values["seconds"]))
    for key, runs in values.assign(log=logs).groupby(DEVICE, sort=False):
        repeats = runs.groupby(cell, sort=False)["sitting"].transform("count")
        if not 2 <= repeats.max() < below or runs.duplicated([*cell, "sitting"]).any():
            continue
        several = runs[repeats > 1]
        cells = several.groupby(cell, sort=False).ngroup()
        if cells.nunique() >= 3:
            table = several.assign(cell=cells).pivot(index="cell", columns="sitting", values="log")
            spread = spread_of(table.to_numpy(dtype=float))
            if spread is not None:
                found[key] = spread
    return found


def spread_of(logs: np.ndarray) -> Spread | None:
    """The residual spread of log seconds, an array of cells × blocks, NaN where a run is missing:
    least squares of the additive model, and as many degrees of freedom as runs beyond its rank;
    None where there are none beyond."""
    import numpy as np

    cells, blocks = np.nonzero(~np.isnan(logs))
    design = np.hstack([np.eye(logs.shape[0])[cells], np.eye(logs.shape[1])[blocks]])
    values = logs[cells, blocks]
    fitted, _, rank, _ = np.linalg.lstsq(design, values, rcond=None)
    freedom = len(values) - int(rank)
    if freedom < 1:
        return None
    return Spread(float(((values - design @ fitted) ** 2).sum() / freedom), freedom)


def shared(
    spreads: Mapping[tuple[Any, ...], Spread], a: Mapping[Any, Any], b: Mapping[Any, Any]
) -> Spread | None:
    """The spread that two cells share: none where they are on different devices."""
    keys = [tuple(cell[name] for name in DEVICE) for cell in (a, b)]
    return spreads.get(keys[0]) if keys[0] == keys[1] else None


def pooled(
    ratio: Ratio, pairs: list[float], spread: Spread, confidence: float = 0.95, among: int = 1
) -> Ratio:
    """The mean of `pairs` (log a - log b by common block) with the pooled interval ± c·√(2 s²/n),
    or `ratio`, with the interval of their own spread, where that is wider and speaks against
    pooling. c is Student's t; of one of `among` comparisons with the same cell, Dunnett's."""
    n, middle = len(pairs), statistics.fmean(pairs)
    variance = 2 * spread.variance
    half = dunnett(confidence, among, spread.freedom) * math.sqrt(variance / n)
    own = statistics.variance(pairs)
    wider = ratio.high is None or math.log(ratio.high / ratio.estimate) >= half
    doubtful = variance == 0 or own / variance > fisher(GUARD, n - 1, spread.freedom)
    if wider and doubtful:
        return ratio
    low, high = math.exp(middle - half), math.exp(middle + half)
    method = f"pooled over cells, {spread.freedom} degrees of freedom"
    return Ratio(math.exp(middle), low, high, n, n, method, not low <= 1 <= high)


def fisher(share: float, above: float, below: float) -> float:
    """The quantile of the F distribution below which `share` of it lies."""
    from scipy.special import fdtri

    return float(fdtri(above, below, share))
