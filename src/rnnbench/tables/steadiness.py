"""How steady the machine was: how much the epochs of a run differ."""

from __future__ import annotations

import math
import statistics

import pandas as pd

from rnnbench.tables.usable_runs import counted, usable_epochs

MIN_EPOCHS = 5


def steadiness(frame: pd.DataFrame) -> pd.Series:
    """The relative spread of each run's epochs (index: machine, record): the standard deviation of
    their log seconds. Source: timed epochs, after the first, of runs that are not void and have at
    least five of them."""
    by_run = counted(usable_epochs(frame)).groupby(["machine", "record"], sort=False)["seconds"]
    seconds = by_run.agg(list)
    return seconds[seconds.map(len) >= MIN_EPOCHS].map(_spread).astype("float64")


def _spread(seconds: list[float]) -> float:
    return statistics.stdev(map(math.log, seconds))
