"""How much the epochs of a run differ, which shows how steady the machine was, and whether the
warm-up was long enough."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import pandas as pd

from rnnbench.axes import CONFIGURATION
from rnnbench.tables.usable_runs import counted, usable_epochs

MIN_EPOCHS = 5
MIN_EXCESS = 0.05  # a smaller excess of the first epochs is irrelevant
MIN_SPREADS = 4.0  # an excess of fewer robust spreads of the later epochs is noise


def steadiness(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per run: the configuration, `record`, `spread` (the standard deviation of the log
    seconds of its epochs), `warm` (`warm_epochs`). Source: timed epochs, after the first, of runs
    that are not void and have at least five of them."""
    by_run = counted(usable_epochs(frame)).groupby([*CONFIGURATION, "record"], sort=False)
    runs = by_run["seconds"].agg(list).reset_index()
    runs = runs[runs["seconds"].map(len) >= MIN_EPOCHS]
    spreads = [statistics.stdev(map(math.log, seconds)) for seconds in runs["seconds"]]
    return runs.assign(spread=spreads, warm=list(map(warm_epochs, runs["seconds"])))


def warm_epochs(seconds: Sequence[float]) -> int:
    """The number of epochs at the beginning that are still warm-up. It is the k ≤ n / 2 whose split
    into the first k epochs and the rest minimizes the sum of squares around the two means (Hinkley,
    Biometrika 57, 1970). It is 0 unless the mean of the first k exceeds the median of the rest by
    more than 5 % and by more than four robust spreads of the rest (1.4826 × median absolute
    deviation)."""
    splits = range(1, len(seconds) // 2 + 1)
    best = min(splits, key=lambda k: _squares(seconds[:k]) + _squares(seconds[k:]))
    rest = seconds[best:]
    level = statistics.median(rest)
    spread = 1.4826 * statistics.median(abs(value - level) for value in rest)
    excess = statistics.fmean(seconds[:best]) - level
    return best if excess > max(MIN_EXCESS * level, MIN_SPREADS * spread) else 0


def _squares(values: Sequence[float]) -> float:
    mean = statistics.fmean(values)
    return sum((value - mean) ** 2 for value in values)
