"""Time to a target accuracy."""

from __future__ import annotations

import statistics

import pandas as pd

from rnnbench.axes import CONFIGURATION, TASK
from rnnbench.tables.curves import with_elapsed
from rnnbench.tables.grouping import split
from rnnbench.tables.stats import mean_interval

SHARE = 0.99  # of the accuracy that every run of the task reaches
TARGET_COLUMNS = [
    *CONFIGURATION, "target", "runs", "suspect", "reached", "seconds", "seconds_low",
    "seconds_high", "epochs",
]  # fmt: skip


def target(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per configuration: the training time to a validation accuracy that all runs reach.

    Columns: the configuration; `target`: 99 % of the lowest of the best accuracies of all runs of
    the task (model, RNN cell, dataset, variant), so that it depends neither on other tasks nor on a
    lucky run; `runs`, `suspect` and `reached` (numbers of runs); `seconds` of training until the
    end of the first epoch that reaches the target (geometric mean over the runs that do) with the
    95 % interval `seconds_low`, `seconds_high`; `epochs` (median). Source: runs that are not void.
    """
    epochs = with_elapsed(frame).dropna(subset=["val_acc"])
    if epochs.empty:
        return pd.DataFrame(columns=TARGET_COLUMNS)
    best = epochs.groupby([*TASK, "record"], sort=False)["val_acc"].max()
    epochs["target"] = (
        SHARE * epochs[TASK].merge(best.groupby(TASK).min().rename("target").reset_index(),
                                   on=TASK, how="left")["target"].to_numpy()
    )  # fmt: skip
    first = epochs[epochs["val_acc"] >= epochs["target"]].drop_duplicates("record")
    reached = split(first, CONFIGURATION, ["elapsed", "epoch"])
    rows = []
    runs_of = split(epochs.drop_duplicates("record"), CONFIGURATION, ["target", "verdict"])
    for key, runs in runs_of.items():
        row = {
            **dict(zip(CONFIGURATION, key, strict=True)),
            "target": runs["target"][0],
            "runs": len(runs["target"]),
            "suspect": int((runs["verdict"] == "suspect").sum()),
            "reached": 0,
        }
        epochs_reached = reached.get(key)
        if epochs_reached is not None:
            seconds = mean_interval(epochs_reached["elapsed"].tolist())
            row |= {
                "reached": len(epochs_reached["epoch"]),
                **seconds.columns("seconds"),
                "epochs": statistics.median(epochs_reached["epoch"]),
            }
        rows.append(row)
    return pd.DataFrame(rows, columns=TARGET_COLUMNS)
