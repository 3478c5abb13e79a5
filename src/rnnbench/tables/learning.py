"""Comparison of learning: accuracy and loss against the reference, seed by seed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd

from rnnbench.axes import CONFIGURATION, KEY
from rnnbench.tables.grouping import Rows, split
from rnnbench.tables.reference import Key, keys_of, references
from rnnbench.tables.stats import Interval, difference_interval
from rnnbench.tables.usable_runs import usable_epochs

LEARNING_COLUMNS = [
    *CONFIGURATION, "is_reference", "suspect", "seeds", "val_acc", "val_acc_difference",
    "val_acc_low", "val_acc_high", "val_acc_largest", "loss_largest", "shown_different",
]  # fmt: skip


def learning(frame: pd.DataFrame, reference: Mapping[str, str]) -> pd.DataFrame:
    """One row per configuration that has a seed in common with its reference.

    Columns: the configuration; `is_reference` (bool); `suspect` (number of suspect runs, its own
    and the reference's); `seeds` (number of common seeds); `val_acc` at the last epoch (mean over
    these seeds); `val_acc_difference` from the reference (mean over seeds, after averaging the runs
    of a seed) with the 95 % interval `val_acc_low`, `val_acc_high` (paired by seed; missing for a
    single seed); `val_acc_largest` and `loss_largest`: the largest absolute difference of the
    validation-accuracy curves and of the loss curves over seeds and epochs; `shown_different`
    (bool: the interval exists and excludes 0). Source: epochs of runs that are not void.
    """
    epochs = usable_epochs(frame)
    if epochs.empty:
        return pd.DataFrame(columns=LEARNING_COLUMNS)
    suspect_epochs = epochs[epochs["verdict"] == "suspect"]
    suspect = suspect_epochs.groupby(KEY)["record"].nunique().to_dict()
    first = epochs.drop_duplicates(KEY)
    names = dict(zip(keys_of(epochs), first["implementation"], strict=True))
    against = references(keys_of(frame), reference)
    pairs = _with_reference(epochs, against)
    pairs["val_acc_difference"] = pairs["val_acc"] - pairs["val_acc_base"]
    pairs["loss_difference"] = (pairs["loss"] - pairs["loss_base"]).abs()
    columns = ["seed", "val_acc", "val_acc_difference", "loss_difference"]
    rows = []
    for key, own in split(pairs, KEY, columns).items():
        base = against[key]
        rows.append(
            {
                **dict(zip(KEY, key, strict=True)),
                "implementation": names[key],
                "is_reference": base == key,
                "suspect": suspect.get(key, 0) + suspect.get(base, 0),
                **_differences(own),
            }
        )
    table = pd.DataFrame(rows, columns=LEARNING_COLUMNS)
    # A model without an accuracy (a regression) has None, which would give an object column.
    numeric = LEARNING_COLUMNS[LEARNING_COLUMNS.index("val_acc") : -1]
    table[numeric] = table[numeric].astype("float64")
    return table


def _with_reference(epochs: pd.DataFrame, against: Mapping[Key, Key]) -> pd.DataFrame:
    """Loss and validation accuracy by configuration, seed and epoch (averaged over the runs of a
    seed), with `loss_base` and `val_acc_base`: those of the reference (`against`) with the same
    seed and epoch. Rows without a counterpart are omitted."""
    by = [*KEY, "seed", "epoch"]
    means = epochs.groupby(by, sort=False)[["loss", "val_acc"]].mean().reset_index()
    keys = zip(*(means[name] for name in KEY), strict=True)
    bases = zip(*(against[key] for key in keys), strict=True)
    base_keys = means[by].assign(**dict(zip(KEY, map(list, bases), strict=True)))
    base = base_keys.merge(means.assign(exists=True), on=by, how="left")
    means["loss_base"], means["val_acc_base"] = base["loss"], base["val_acc"]
    return means[base["exists"].eq(True)].copy()


def _differences(pairs: Rows) -> dict[str, Any]:
    """The columns from `seeds` on, from one configuration's rows of `_with_reference`, in the order
    of epochs."""
    last = list({seed: index for index, seed in enumerate(pairs["seed"].tolist())}.values())
    at_end, accuracies = (_present(pairs[name][last]) for name in ("val_acc_difference", "val_acc"))
    interval = difference_interval(at_end) if at_end else Interval(math.nan, None, None)
    low, high = interval.low, interval.high
    return {
        "seeds": len(last),
        "val_acc": fmean(accuracies) if accuracies else None,
        **interval.columns("val_acc_difference", "val_acc_low", "val_acc_high"),
        "val_acc_largest": max(map(abs, _present(pairs["val_acc_difference"])), default=None),
        "loss_largest": max(_present(pairs["loss_difference"]), default=None),
        "shown_different": low is not None and high is not None and not low <= 0 <= high,
    }


def _present(values: np.ndarray) -> list[float]:
    """`values` that are not NaN."""
    return [value for value in values.tolist() if value == value]
