"""What was learnt: accuracy and loss at the last epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rnnbench.tables.frame import CELL
from rnnbench.tables.usable_runs import run_values

if TYPE_CHECKING:
    import pandas as pd

MEASURES = ("acc", "val_acc", "loss", "val_loss")


def accuracy(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per cell on one machine, from runs that are not void.

    Columns: the cell; `runs`, `suspect`, `seeds` (how many different ones), `epochs`;
    `not_learning` (bool: its steps apply another gradient than the one that they compute); then
    for `acc`, `val_acc` (shares, 0 to 1), `loss` and `val_loss` at the last epoch the mean
    over runs and, as `…_sd`, the standard deviation between seeds, each with the mean of its
    runs (missing for one seed: repeats of a seed say nothing of what another would give).
    Source: the records' epochs.
    """
    values = run_values(frame)
    by_cell = values.groupby(CELL, sort=False)
    by_seed = values.groupby([*CELL, "seed"], sort=False)
    table = by_cell.agg(
        runs=("record", "count"),
        suspect=("suspect", "sum"),
        seeds=("seed", "nunique"),
        epochs=("epochs", "max"),
    )
    table["not_learning"] = by_cell["not_learning"].any()
    for measure in MEASURES:
        table[measure] = by_cell[measure].mean()
        table[f"{measure}_sd"] = by_seed[measure].mean().groupby(CELL, sort=False).std()
    return table.reset_index()
