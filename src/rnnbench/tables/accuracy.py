"""Accuracy and loss at the last epoch."""

from __future__ import annotations

from typing import Any

import pandas as pd

from rnnbench.axes import CONFIGURATION
from rnnbench.tables.usable_runs import run_values

MEASURES = ("acc", "val_acc", "loss", "val_loss")
MIN_SEEDS = 3  # that can show a difference in accuracy; with two, Student's t is 12.7 or more
TOO_FEW_SEEDS = "fewer than three seeds"


def accuracy(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per configuration and machine, from runs that are not void.

    Columns: the configuration; `runs`, `suspect`, `seeds` (numbers of runs, suspect runs and
    different seeds), `epochs`; `not_learning` (bool: its training steps apply a gradient other than
    the computed one). Then, for each of `acc`, `val_acc` (shares, 0 to 1), `loss` and `val_loss` at
    the last epoch: the mean over runs and, as `…_sd`, the standard deviation between seeds, after
    averaging the runs of a seed (missing for a single seed, as repeats do not show the variation
    between seeds). Source: the epochs of the records.
    """
    values = run_values(frame)
    by_configuration = values.groupby(CONFIGURATION, sort=False)
    by_seed = values.groupby([*CONFIGURATION, "seed"], sort=False)
    table = by_configuration.agg(
        runs=("record", "count"),
        suspect=("suspect", "sum"),
        seeds=("seed", "nunique"),
        epochs=("epochs", "max"),
    )
    table["not_learning"] = by_configuration["not_learning"].any()
    for measure in MEASURES:
        table[measure] = by_configuration[measure].mean()
        table[f"{measure}_sd"] = by_seed[measure].mean().groupby(CONFIGURATION, sort=False).std()
    return table.reset_index()


def validation_samples(frame: pd.DataFrame, by: list[str]) -> dict[Any, float]:
    """The size of the validation set, by the values of `by`."""
    sizes = frame[frame["phase"] == "evaluate"].groupby(by, sort=False)["samples"].min()
    return dict(sizes.dropna())
