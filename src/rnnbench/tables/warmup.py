"""Was the warm-up long enough? A change point in the timed epochs of each run."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rnnbench.tables.frame import CELL
from rnnbench.tables.usable_runs import counted, usable_epochs

if TYPE_CHECKING:
    import pandas as pd

LEAST_EXCESS = 0.05  # slower by less is no warm-up worth a word
SPREADS = 4.0  # and by less than this many spreads of the epochs after it is noise
LEAST_EPOCHS = 5


def change_point(seconds: Sequence[float]) -> int:
    """How many epochs at the beginning are still warm-up: the split k ≤ n / 2 into "first k"
    and "rest" that leaves the least sum of squares around two means (Hinkley, Biometrika 57,
    1970), if the first k are slower than the rest's median by more than 5 % and by more than
    four robust spreads of the rest (1.4826 × median absolute deviation); else 0. Needs five
    epochs or more."""
    n = len(seconds)
    if n < LEAST_EPOCHS:
        return 0
    best, least = 0, float("inf")
    for k in range(1, n // 2 + 1):
        squares = _squares(seconds[:k]) + _squares(seconds[k:])
        if squares < least:
            best, least = k, squares
    rest = seconds[best:]
    level = statistics.median(rest)
    spread = 1.4826 * statistics.median(abs(value - level) for value in rest)
    excess = statistics.fmean(seconds[:best]) - level
    return best if excess > max(LEAST_EXCESS * level, SPREADS * spread) else 0


def warmup(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per cell: the cell, `runs` (with five epochs that count or more), `still_warm`
    (runs whose first of these are warm-up), `epochs` (most epochs found so in a run). Source:
    timed epochs of runs that are not void; the configured warm-up lies before them."""
    import pandas as pd

    by_run = counted(usable_epochs(frame)).groupby([*CELL, "record"], sort=False)["seconds"]
    found = by_run.agg(list).reset_index()
    found = found[found["seconds"].map(len) >= LEAST_EPOCHS]
    found["epochs"] = [change_point(seconds) for seconds in found["seconds"]]
    found["warm"] = found["epochs"] > 0
    table = found.groupby(CELL, sort=False).agg(
        runs=("record", "count"), still_warm=("warm", "sum"), epochs=("epochs", "max")
    )
    return pd.DataFrame(table).reset_index()


def _squares(values: Sequence[float]) -> float:
    mean = statistics.fmean(values)
    return sum((value - mean) ** 2 for value in values)
