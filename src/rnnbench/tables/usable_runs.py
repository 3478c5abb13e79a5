"""Which runs may enter a number, and the one row each of them contributes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rnnbench.tables.frame import CELL

if TYPE_CHECKING:
    import pandas as pd

FACTS = [
    *CELL, "name", "seed", "repeat", "order", "started", "verdict", "not_learning", "round",
    "effect", "companion",
]  # fmt: skip
BLOCK = ["machine", "site", "experiment", "block"]


def usable_epochs(frame: pd.DataFrame, companions: bool = False) -> pd.DataFrame:
    """The rows of timed epochs of runs that are not void; without `companions`."""
    usable = (frame["phase"] == "epoch") & (frame["verdict"] != "void")
    return frame[usable if companions else usable & (frame["companion"] != 1)]


def counted(epochs: pd.DataFrame) -> pd.DataFrame:
    """The rows of `epochs` whose seconds a run counts with (``records.record.run_value``): all but
    its first, and that where it is the only one."""
    alone = epochs.groupby("record", sort=False)["epoch"].transform("count") == 1
    return epochs[alone | (epochs["epoch"] > 1)]


def run_values(frame: pd.DataFrame, companions: bool = False) -> pd.DataFrame:
    """One row per run that is not void and has a timed epoch, in the order of `frame`; without
    `companions`, which have no other use than that others are compared with them.

    Columns: `record` and the run's facts; `seconds` (median of its `counted` epochs), `epochs`,
    `steps` and `samples` (per epoch); `loss`, `acc`, `val_loss`, `val_acc` of the last epoch;
    `evaluate`, `predict` (median later call, seconds, missing where not measured);
    `suspect` (bool); `not_learning` (bool: its certificate says that its steps apply another
    gradient than the one that they compute); `effect` (log seconds against the others of its round,
    missing where nobody can say) and `companion` (bool); `block` (text): which block of which
    experiment, where and on which machine: block 0 of another experiment was measured at another
    time; `sitting`: its round where it has an `effect`, else its block.
    """
    epochs = usable_epochs(frame, companions)
    by_run = epochs.groupby("record", sort=False)
    values = by_run[FACTS].first()
    parts = by_run[BLOCK].first().astype({"block": "Int64"}).astype(str)
    values["block"] = parts[BLOCK[0]].str.cat(parts[BLOCK[1:]], sep="/")
    values["sitting"] = values["round"].where(values["effect"].notna(), values["block"])
    values["companion"] = values["companion"] == 1
    values["seconds"] = counted(epochs).groupby("record", sort=False)["seconds"].median()
    values["epochs"] = by_run["epoch"].count()
    values[["steps", "samples"]] = by_run[["steps", "samples"]].median()
    # Not .last(): that would step back to an earlier epoch where the last loss is missing.
    last = epochs.loc[~epochs["record"].duplicated(keep="last")].set_index("record")
    for name in ("loss", "acc", "val_loss", "val_acc"):
        values[name] = last[name]
    for phase in ("evaluate", "predict"):
        rows = frame[frame["phase"] == phase].drop_duplicates("record").set_index("record")
        values[phase] = rows["call_seconds"].reindex(values.index)
    values["suspect"] = values["verdict"] == "suspect"
    values["not_learning"] = values["not_learning"] == 1
    if companions:  # one whose cell has no run of its own stands for nothing
        values = values[~values.groupby(CELL, sort=False)["companion"].transform("all")]
    return values.reset_index()
