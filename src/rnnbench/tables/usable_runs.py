"""The runs that tables use, and the one value that each of them contributes."""

from __future__ import annotations

import pandas as pd

from rnnbench.axes import CONFIGURATION

RUN_COLUMNS = [
    *CONFIGURATION, "name", "seed", "repeat", "order", "started", "verdict", "not_learning",
    "round", "effect", "widening", "slowed", "slow_effect", "slow_cycles", "cycles", "scale",
    "companion",
]  # fmt: skip
BLOCK_COLUMNS = ["machine", "site", "experiment", "block"]


def usable_epochs(frame: pd.DataFrame, companions: bool = False) -> pd.DataFrame:
    """The rows of timed epochs of runs that are not void, with or without `companions`."""
    usable = (frame["phase"] == "epoch") & (frame["verdict"] != "void")
    return frame[usable if companions else usable & (frame["companion"] != 1)]


def counted(epochs: pd.DataFrame) -> pd.DataFrame:
    """The rows of `epochs` whose seconds enter the value of a run (``records.record.run_value``):
    all but its first epoch, unless it is the only one."""
    is_only = epochs.groupby("record", sort=False)["epoch"].transform("count") == 1
    return epochs[is_only | (epochs["epoch"] > 1)]


def run_values(frame: pd.DataFrame, companions: bool = False) -> pd.DataFrame:
    """One row per run that is not void and has a timed epoch, in the order of `frame`, with or
    without `companions` (which only serve ratios).

    Columns: `record` and the run columns of the tidy frame; `seconds` (median of its `counted`
    epochs times its `scale`), `epochs` (their number), `steps` and `samples` (per epoch); `loss`,
    `acc`, `val_loss`, `val_acc` of the last epoch; `evaluate`, `predict` (seconds of the median
    later call, missing if
    not measured); `suspect` (bool); `not_learning` (bool: its certificate shows that its training
    steps apply a gradient other than the computed one); `effect` (log seconds relative to the
    others of its round, missing if unknown), `slowed` (bool: while the machine was slowed down),
    `widening`, `slow_effect`, `slow_cycles`, `cycles` (as in the tidy frame) and `companion`
    (bool); `block`
    (text): machine, site, experiment and number of the block, as blocks with the same number in
    different experiments were measured at different times; `pairing`: its round if it has an
    `effect`, else its block. Runs of two configurations are paired by `pairing`.
    """
    epochs = usable_epochs(frame, companions=True)
    by_run = epochs.groupby("record", sort=False)
    values = by_run[RUN_COLUMNS].first()
    parts = by_run[BLOCK_COLUMNS].first().astype({"block": "Int64"}).astype(str)
    values["block"] = parts[BLOCK_COLUMNS[0]].str.cat(parts[BLOCK_COLUMNS[1:]], sep="/")
    values["pairing"] = values["round"].where(values["effect"].notna(), values["block"])
    values["companion"] = values["companion"] == 1
    values["slowed"] = values["slowed"] == 1
    median = counted(epochs).groupby("record", sort=False)["seconds"].median()
    values["seconds"] = median * values["scale"]
    values["epochs"] = by_run["epoch"].count()
    values[["steps", "samples"]] = by_run[["steps", "samples"]].median()
    # Not .last(), which would use an earlier epoch if the last loss is missing.
    last = epochs.loc[~epochs["record"].duplicated(keep="last")].set_index("record")
    for name in ("loss", "acc", "val_loss", "val_acc"):
        values[name] = last[name]
    for phase in ("evaluate", "predict"):
        rows = frame[frame["phase"] == phase].drop_duplicates("record").set_index("record")
        values[phase] = rows["call_seconds"].reindex(values.index)
    values["suspect"] = values["verdict"] == "suspect"
    values["not_learning"] = values["not_learning"] == 1
    if not companions:
        return values[~values["companion"]].reset_index()
    # Without companions that serve no ratio, and without configurations that have no other runs.
    values = values[~values["companion"] | values["effect"].notna()]
    alone = values.groupby(CONFIGURATION, sort=False)["companion"].transform("all").astype(bool)
    return values[~alone].reset_index()
