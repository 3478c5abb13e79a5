"""Do they learn the same? Runs of the same seed, compared with the reference's."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import TYPE_CHECKING, Any

from rnnbench.tables.frame import CELL
from rnnbench.tables.grouping import Rows, split
from rnnbench.tables.reference import KEY, Key, keys_of, references
from rnnbench.tables.stats import difference_interval
from rnnbench.tables.usable_runs import usable_epochs

if TYPE_CHECKING:
    import numpy as np
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
    if epochs.empty:
        return pd.DataFrame(columns=LEARNING_COLUMNS)
    doubted = epochs[epochs["verdict"] == "suspect"]
    suspect = doubted.groupby(KEY)["record"].nunique().to_dict()
    first = epochs.drop_duplicates(KEY)
    names = dict(zip(keys_of(epochs), first["implementation"], strict=True))
    against = references(keys_of(frame), reference)
    both = _beside(epochs, against)
    both["val_acc_gap"] = both["val_acc"] - both["val_acc_base"]
    both["loss_gap"] = (both["loss"] - both["loss_base"]).abs()
    rows = []
    for key, cell in split(both, KEY, ["seed", "val_acc", "val_acc_gap", "loss_gap"]).items():
        wanted = against[key]
        rows.append(
            {
                **dict(zip(KEY, key, strict=True)),
                "implementation": names[key],
                "is_reference": wanted == key,
                "suspect": suspect.get(key, 0) + suspect.get(wanted, 0),
                **_difference(cell),
            }
        )
    found = pd.DataFrame(rows, columns=LEARNING_COLUMNS)
    # A model without an accuracy (a regression) has None there, which is no number to pandas.
    numbers = LEARNING_COLUMNS[LEARNING_COLUMNS.index("val_acc") : -1]
    found[numbers] = found[numbers].astype("float64")
    return found


def _beside(epochs: pd.DataFrame, against: Mapping[Key, Key]) -> pd.DataFrame:
    """Loss and validation accuracy by cell, seed and epoch (runs of one seed averaged), with those
    of the cell that it is compared `against`, of the same seed and epoch, as `loss_base` and
    `val_acc_base`."""
    by = [*KEY, "seed", "epoch"]
    means = epochs.groupby(by, sort=False)[["loss", "val_acc"]].mean().reset_index()
    keys = zip(*(means[name] for name in KEY), strict=True)
    others = zip(*(against[key] for key in keys), strict=True)
    wanted = means[by].assign(**dict(zip(KEY, map(list, others), strict=True)))
    base = wanted.merge(means.assign(there=True), on=by, how="left")
    means["loss_base"], means["val_acc_base"] = base["loss"], base["val_acc"]
    return means[base["there"].eq(True)].copy()


def _difference(cell: Rows) -> dict[str, Any]:
    """`cell`: rows of `_beside` of one cell, its epochs in order."""
    last = list({seed: place for place, seed in enumerate(cell["seed"].tolist())}.values())
    gaps, reached = (_present(cell[name][last]) for name in ("val_acc_gap", "val_acc"))
    interval = difference_interval(gaps) if gaps else None
    low, high = (interval.low, interval.high) if interval else (None, None)
    return {
        "seeds": len(last),
        "val_acc": fmean(reached) if reached else None,
        "val_acc_difference": interval.estimate if interval else None,
        "val_acc_low": low,
        "val_acc_high": high,
        "val_acc_largest": max(map(abs, _present(cell["val_acc_gap"])), default=None),
        "loss_largest": max(_present(cell["loss_gap"]), default=None),
        "shown_different": low is not None and high is not None and not low <= 0 <= high,
    }


def _present(values: np.ndarray) -> list[float]:
    return [value for value in values.tolist() if value == value]
