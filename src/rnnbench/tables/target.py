"""Time to a target accuracy, and learning by the second instead of by the epoch."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from rnnbench.tables.frame import CELL
from rnnbench.tables.grouping import split
from rnnbench.tables.stats import mean_interval
from rnnbench.tables.usable_runs import usable_epochs

if TYPE_CHECKING:
    import pandas as pd

SHARE = 0.99  # of what every run of the group reaches at least
TASK = ["model", "cell", "dataset", "variant"]
TARGET_COLUMNS = [
    *CELL, "target", "runs", "suspect", "reached", "seconds", "seconds_low", "seconds_high",
    "epochs",
]  # fmt: skip


def with_elapsed(frame: pd.DataFrame) -> pd.DataFrame:
    """Timed epochs of runs that are not void, with `elapsed`: seconds of training up to the
    epoch's end (validation and start-up left out)."""
    epochs = usable_epochs(frame).copy()
    epochs["elapsed"] = epochs.groupby("record", sort=False)["seconds"].cumsum()
    return epochs


def curves_by_second(frame: pd.DataFrame, measure: str) -> pd.DataFrame:
    """One row per cell and epoch: the cell, `epoch`, `elapsed` (mean seconds over runs), `mean`
    of `measure` over runs, `suspect` (bool). Epochs without a value are left out."""
    epochs = with_elapsed(frame).dropna(subset=[measure])
    epochs["doubted"] = epochs["verdict"] == "suspect"
    return (
        epochs.groupby([*CELL, "epoch"], sort=False)
        .agg(elapsed=("elapsed", "mean"), mean=(measure, "mean"), suspect=("doubted", "any"))
        .reset_index()
    )


def target(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per cell: how long until a validation accuracy that all can reach.

    `target` is 99 % of the lowest best accuracy of any run of the task (model, cell, dataset,
    variant), so no cell is asked for what another task or luck gave; `reached` of `runs`;
    `seconds` (geometric mean over runs that reached it, 95 % interval) of training up to the end
    of the first epoch at or above it; `epochs` (median). Source: runs that are not void.
    """
    import pandas as pd

    epochs = with_elapsed(frame).dropna(subset=["val_acc"])
    if epochs.empty:
        return pd.DataFrame(columns=TARGET_COLUMNS)
    best = epochs.groupby([*TASK, "record"], sort=False)["val_acc"].max()
    epochs["target"] = (
        SHARE * epochs[TASK].merge(best.groupby(TASK).min().rename("target").reset_index(),
                                   on=TASK, how="left")["target"].to_numpy()
    )  # fmt: skip
    there = epochs[epochs["val_acc"] >= epochs["target"]].drop_duplicates("record")
    arrived = split(there, CELL, ["elapsed", "epoch"])
    rows = []
    runs_of = split(epochs.drop_duplicates("record"), CELL, ["target", "verdict"])
    for key, runs in runs_of.items():
        row = {
            **dict(zip(CELL, key, strict=True)),
            "target": runs["target"][0],
            "runs": len(runs["target"]),
            "suspect": int((runs["verdict"] == "suspect").sum()),
            "reached": 0,
        }
        mine = arrived.get(key)
        if mine is not None:
            seconds = mean_interval(mine["elapsed"].tolist())
            row |= {"reached": len(mine["epoch"]), "seconds": seconds.estimate,
                    "seconds_low": seconds.low, "seconds_high": seconds.high,
                    "epochs": statistics.median(mine["epoch"])}  # fmt: skip
        rows.append(row)
    return pd.DataFrame(rows, columns=TARGET_COLUMNS)
