"""Do they learn the same? Runs of the same seed, compared with the reference's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rnnbench.tables.frame import CELL
from rnnbench.tables.stats import difference_interval
from rnnbench.tables.time import KEY, reference_key
from rnnbench.tables.usable import usable_epochs

if TYPE_CHECKING:
    import pandas as pd

LEARNING_COLUMNS = [
    *CELL, "is_reference", "suspect", "seeds", "val_acc", "val_acc_difference", "val_acc_low",
    "val_acc_high", "val_acc_largest", "loss_largest", "shown_different",
]  # fmt: skip


def learning(frame: pd.DataFrame, reference: Mapping[str, str]) -> pd.DataFrame:
    """One row per cell that has a reference with a seed in common.

    Columns: the cell; `is_reference`; `suspect` (how many of its and its reference's runs);
    `seeds` in common; `val_acc` at the last epoch, mean over these seeds;
    `val_acc_difference` from the reference (mean over seeds; runs of one seed are averaged
    first) with `val_acc_low`, `val_acc_high` (95 %, paired by seed; missing for one seed);
    `val_acc_largest` and `loss_largest`: largest absolute difference between the curves of
    validation accuracy and of loss, over seeds and epochs; `shown_different`: the interval
    exists and leaves out 0. Source: epochs of runs that are not void.
    """
    import pandas as pd

    epochs = usable_epochs(frame)
    cells = {key: _curves(rows) for key, rows in epochs.groupby(KEY, sort=False)}
    names = epochs.drop_duplicates(KEY).set_index(KEY)["implementation"].to_dict()
    doubted = epochs[epochs["verdict"] == "suspect"]
    suspect = doubted.groupby(KEY)["record"].nunique().to_dict()
    rows = []
    for key, curves in cells.items():
        cell = dict(zip(KEY, key, strict=True))
        wanted = reference_key(cell, reference)
        base = cells.get(wanted)
        if base is not None:
            facts = {
                "implementation": names[key],
                "suspect": suspect.get(key, 0) + suspect.get(wanted, 0),
            }
            rows.append({**cell, **facts, "is_reference": base is curves,
                         **_difference(curves, base)})  # fmt: skip
    table = pd.DataFrame(rows, columns=LEARNING_COLUMNS)
    return table[table["seeds"] > 0].reset_index(drop=True)


def _curves(epochs: pd.DataFrame) -> pd.DataFrame:
    """Loss and validation accuracy by seed and epoch, runs of one seed averaged."""
    return epochs.groupby(["seed", "epoch"])[["loss", "val_acc"]].mean()


def _difference(own: pd.DataFrame, base: pd.DataFrame) -> dict[str, Any]:
    own, base = own.align(base, join="inner")
    gap = own - base
    last = gap["val_acc"].groupby("seed").last().dropna()
    interval = difference_interval(last.tolist()) if len(last) else None
    low, high = (interval.low, interval.high) if interval else (None, None)
    return {
        "seeds": gap.index.get_level_values("seed").nunique(),
        "val_acc": own["val_acc"].groupby("seed").last().mean(),
        "val_acc_difference": interval.estimate if interval else None,
        "val_acc_low": low,
        "val_acc_high": high,
        "val_acc_largest": gap["val_acc"].abs().max(),
        "loss_largest": gap["loss"].abs().max(),
        "shown_different": low is not None and high is not None and not low <= 0 <= high,
    }
