"""Learning curves: loss and validation accuracy by epoch."""

from __future__ import annotations

import pandas as pd

from rnnbench.axes import CONFIGURATION
from rnnbench.tables.usable_runs import usable_epochs


def curves(frame: pd.DataFrame, measure: str) -> pd.DataFrame:
    """One row per configuration and epoch: the configuration; `epoch`; `mean`, `low` and `high`
    (minimum and maximum over runs) of `measure` (``loss``, ``val_acc``, …); `suspect` (bool: at
    least one run is suspect). Epochs without a value are omitted. Source: epochs of runs that are
    not void."""
    epochs = usable_epochs(frame).dropna(subset=[measure])
    by_epoch = epochs.assign(suspect=epochs["verdict"] == "suspect").groupby(
        [*CONFIGURATION, "epoch"], sort=False
    )
    table = by_epoch[measure].agg(mean="mean", low="min", high="max")
    table["suspect"] = by_epoch["suspect"].any()
    return table.reset_index()
