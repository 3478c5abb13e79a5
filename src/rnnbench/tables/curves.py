"""Learning curves: loss and validation accuracy by epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rnnbench.tables.frame import CELL
from rnnbench.tables.usable_runs import usable_epochs

if TYPE_CHECKING:
    import pandas as pd


def curves(frame: pd.DataFrame, measure: str) -> pd.DataFrame:
    """One row per cell and epoch: the cell, `epoch`, `mean`, `low`, `high` (least and greatest
    run) of `measure` (``loss``, ``val_acc``, …), `suspect` (bool: a suspect run is among them).
    Epochs without a value are left out. Source: epochs of runs that are not void."""
    epochs = usable_epochs(frame).dropna(subset=[measure])
    by_epoch = epochs.assign(doubted=epochs["verdict"] == "suspect").groupby(
        [*CELL, "epoch"], sort=False
    )
    table = by_epoch[measure].agg(mean="mean", low="min", high="max")
    table["suspect"] = by_epoch["doubted"].any()
    return table.reset_index()
