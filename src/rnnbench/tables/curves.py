"""Learning curves: loss and validation accuracy by epoch, and by seconds of training."""

from __future__ import annotations

import pandas as pd

from rnnbench.axes import CONFIGURATION
from rnnbench.tables.usable_runs import usable_epochs


def with_elapsed(frame: pd.DataFrame) -> pd.DataFrame:
    """The timed epochs of runs that are not void, with `elapsed`: seconds of training until the end
    of the epoch, without start-up and validation, times the run's `scale`."""
    epochs = usable_epochs(frame).copy()
    elapsed = epochs.groupby("record", sort=False)["seconds"].cumsum()
    epochs["elapsed"] = elapsed * epochs["scale"]
    return epochs


def curves(frame: pd.DataFrame, measure: str) -> pd.DataFrame:
    """One row per configuration and epoch: the configuration; `epoch`; `elapsed` (seconds, mean
    over runs); `mean`, `low` and `high` (minimum and maximum over runs) of `measure` (``loss``,
    ``val_acc``, …); `suspect` (bool: at least one run is suspect). Epochs without a value are
    omitted. Source: epochs of runs that are not void."""
    epochs = with_elapsed(frame).dropna(subset=[measure])
    epochs["suspect"] = epochs["verdict"] == "suspect"
    table = epochs.groupby([*CONFIGURATION, "epoch"], sort=False).agg(
        elapsed=("elapsed", "mean"),
        mean=(measure, "mean"),
        low=(measure, "min"),
        high=(measure, "max"),
        suspect=("suspect", "any"),
    )
    return table.reset_index()
