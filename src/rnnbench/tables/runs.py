"""All runs and their timed epochs, including void ones, and the kernels that ran."""

from __future__ import annotations

import pandas as pd

from rnnbench.axes import CONFIGURATION
from rnnbench.tables.frame import MEASURED
from rnnbench.tables.usable_runs import counted

COPIED = ["name", "verdict", "reasons", "machine", "started", "block", "order", "seed", "repeat"]
EPOCH_COLUMNS = [
    "record", "verdict", "epoch", "start", "seconds", "samples", "steps", "loss", "acc",
    "val_loss", "val_acc", "val_seconds",
]  # fmt: skip
PHASES = ("import", "data", "build", "first_step", "warmup", "evaluate", "predict")


def runs(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per record, in the order of their start.

    Columns: `name`, `verdict`, `reasons`, `machine`, `started`, `block`, `order`, `seed`, `repeat`;
    `epochs` (their number), `epoch_seconds` (median of the counted epochs); `import`, `data`,
    `build`, `first_step`, `warmup` (seconds of the phases); `evaluate`, `predict` (seconds of the
    median later call, or of the whole phase if calls were not timed); `wall_seconds`;
    the measured quantities (`frame.MEASURED`); `loss`, `acc`, `val_acc` of the last epoch;
    `record`. Source: the records.
    """
    run_rows = frame[frame["phase"] == "run"].set_index("record")
    table = run_rows[COPIED].copy()
    epochs = frame[frame["phase"] == "epoch"]
    by_run = epochs.groupby("record")
    table["epochs"] = by_run["epoch"].count()
    table["epochs"] = table["epochs"].fillna(0).astype(int)
    table["epoch_seconds"] = counted(epochs).groupby("record")["seconds"].median()
    for phase in PHASES:
        rows = frame[frame["phase"] == phase].drop_duplicates("record").set_index("record")
        table[phase] = rows["call_seconds"].fillna(rows["seconds"])
    table["wall_seconds"] = run_rows["seconds"]
    table[list(MEASURED)] = run_rows[list(MEASURED)]
    last = epochs.loc[~epochs["record"].duplicated(keep="last")].set_index("record")
    for name in ("loss", "acc", "val_acc"):
        table[name] = last[name]
    return table.reset_index().sort_values(["started", "record"], ignore_index=True)


def epochs(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per timed epoch of every run, including void runs: `record`, `verdict`, `epoch`,
    `start` (seconds of the host's monotonic clock), `seconds`, `samples`, `steps`, `loss`, `acc`,
    `val_loss`, `val_acc`, `val_seconds`. Source: the records."""
    return frame.loc[frame["phase"] == "epoch", EPOCH_COLUMNS].reset_index(drop=True)


def kernels(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per configuration and attested kernel: the configuration, `kernel`, `why_not_cudnn`
    (reasons as text), `runs` (their number). Empty if no record attests a kernel. Source:
    ``measured.kernel`` of runs that are not void."""
    attested = frame[
        (frame["phase"] == "run") & (frame["verdict"] != "void") & (frame["kernel"] != "")
    ]
    runs = attested.groupby([*CONFIGURATION, "kernel", "why_not_cudnn"], sort=False)[
        "record"
    ].count()
    return runs.rename("runs").reset_index()
