"""The raw timed epochs."""

from __future__ import annotations

import pandas as pd

COLUMNS = [
    "record", "verdict", "epoch", "start", "seconds", "samples", "steps", "loss", "acc",
    "val_loss", "val_acc", "val_seconds",
]  # fmt: skip


def epochs(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per timed epoch of every run, including void runs: `record`, `verdict`, `epoch`,
    `start` (seconds of the host's monotonic clock), `seconds`, `samples`, `steps`, `loss`, `acc`,
    `val_loss`, `val_acc`, `val_seconds`. Source: the records."""
    return frame.loc[frame["phase"] == "epoch", COLUMNS].reset_index(drop=True)
