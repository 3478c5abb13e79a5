"""Whether the warm-up was long enough: a change point in the timed epochs of each run."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import pandas as pd

from rnnbench.axes import CONFIGURATION
from rnnbench.tables.usable_runs import counted, usable_epochs

MIN_EXCESS = 0.05  # a smaller excess is irrelevant
MIN_SPREADS = 4.0  # an excess of fewer robust spreads of the later epochs is noise
MIN_EPOCHS = 5


def change_point(seconds: Sequence[float]) -> int:
    """The number of epochs at the beginning that are still warm-up. It is the k ≤ n / 2 whose split
    into the first k epochs and the rest minimizes the sum of squares around the two means (Hinkley,
    Biometrika 57, 1970). It is 0 unless the mean of the first k exceeds the median of the rest by
    more than 5 % and by more than four robust spreads of the rest (1.4826 × median absolute
    deviation), and 0 for fewer than five epochs."""
    n = len(seconds)
    if n < MIN_EPOCHS:
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
    return best if excess > max(MIN_EXCESS * level, MIN_SPREADS * spread) else 0


def warmup(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per configuration: the configuration, `runs` (with at least five counted epochs),
    `still_warm` (runs whose first counted epochs are still warm-up), `epochs` (the most such epochs
    in a run). Source: timed epochs, after the configured warm-up, of runs that are not void."""
    by_run = counted(usable_epochs(frame)).groupby([*CONFIGURATION, "record"], sort=False)[
        "seconds"
    ]
    runs = by_run.agg(list).reset_index()
    runs = runs[runs["seconds"].map(len) >= MIN_EPOCHS]
    runs["epochs"] = [change_point(seconds) for seconds in runs["seconds"]]
    runs["warm"] = runs["epochs"] > 0
    table = runs.groupby(CONFIGURATION, sort=False).agg(
        runs=("record", "count"), still_warm=("warm", "sum"), epochs=("epochs", "max")
    )
    return pd.DataFrame(table).reset_index()


def _squares(values: Sequence[float]) -> float:
    mean = statistics.fmean(values)
    return sum((value - mean) ** 2 for value in values)
