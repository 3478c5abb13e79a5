"""Comparison of learning: accuracy and loss against the reference, seed by seed;
learning curves, and the time to a target accuracy.

Accuracies are multiples of 1 / n for n validation samples, so the differences of a few seeds are
often equal, which says little about their spread: rounding alone gives a difference a standard
deviation of 0.4 / n. It is therefore taken to be at least 1 / n (``benchmarks/accuracy.py``).
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from rnnbench.axes import CONFIGURATION, GROUP, KEY, TASK
from rnnbench.tables.accuracy import MIN_SEEDS, validation_samples
from rnnbench.tables.frame import Rows, split, usable_epochs
from rnnbench.tables.reference import Key, keys_of, references
from rnnbench.tables.stats import Interval, mean_interval, sidak_confidence, student_quantile

LEARNING_COLUMNS = [
    *CONFIGURATION, "is_reference", "suspect", "seeds", "val_acc", "val_acc_difference",
    "val_acc_low", "val_acc_high", "val_acc_largest", "loss_largest", "shown_different",
]  # fmt: skip
SHARE = 0.99  # of the accuracy that every run of the task reaches
TARGET_COLUMNS = [
    *CONFIGURATION, "target", "runs", "suspect", "reached", "seconds", "seconds_low",
    "seconds_high", "epochs",
]  # fmt: skip


def learning(
    frame: pd.DataFrame, reference: Mapping[str, str], together: bool = False
) -> pd.DataFrame:
    """One row per configuration that has a seed in common with its reference.

    Columns: the configuration; `is_reference` (bool); `suspect` (number of suspect runs, its own
    and the reference's); `seeds` (number of common seeds); `val_acc` at the last epoch (mean over
    these seeds); `val_acc_difference` from the reference (mean over seeds, after averaging the runs
    of a seed) with the interval `val_acc_low`, `val_acc_high` (`accuracy_interval`; the 95 % hold
    for all configurations of a group at once or, if `together`, for the whole table);
    `val_acc_largest` and `loss_largest`: the largest absolute difference of the
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
    configurations = split(pairs, KEY, columns)
    family = [KEY.index(name) for name in GROUP if name not in reference and not together]
    families = {key: tuple(key[index] for index in family) for key in configurations}
    ends = {key: _at_end(own, "val_acc_difference") for key, own in configurations.items()}
    compared = [key for key in ends if against[key] != key and len(ends[key]) >= MIN_SEEDS]
    comparisons, samples = Counter(map(families.get, compared)), validation_samples(frame, KEY)
    rows = []
    for key, own in configurations.items():
        base = against[key]
        interval = accuracy_interval(ends[key], samples.get(key), comparisons[families[key]])
        rows.append(
            {
                **dict(zip(KEY, key, strict=True)),
                "implementation": names[key],
                "is_reference": base == key,
                "suspect": suspect.get(key, 0) + suspect.get(base, 0),
                **_differences(own, interval),
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


def accuracy_interval(
    differences: Sequence[float], samples: float | None, comparisons: int = 1
) -> Interval:
    """The mean of the `differences` of one seed each, with its 95 % interval, which holds for all
    `comparisons` at once (Student's t with Šidák's correction). There is none without the number of
    validation `samples`, or with fewer than `MIN_SEEDS` differences."""
    n, mean = len(differences), statistics.fmean(differences) if differences else math.nan
    if n < MIN_SEEDS or not samples:
        return Interval(mean, None, None)
    quantile = student_quantile(sidak_confidence(0.95, max(comparisons, 1)), n - 1)
    halfwidth = quantile * max(statistics.stdev(differences), 1 / samples) / math.sqrt(n)
    return Interval(mean, mean - halfwidth, mean + halfwidth)


def _differences(pairs: Rows, interval: Interval) -> dict[str, Any]:
    """The columns from `seeds` on, from one configuration's rows of `_with_reference`, in the order
    of epochs, and the `interval` of its difference at the last epoch."""
    accuracies, low, high = _at_end(pairs, "val_acc"), interval.low, interval.high
    return {
        "seeds": len(set(pairs["seed"].tolist())),
        "val_acc": statistics.fmean(accuracies) if accuracies else None,
        **interval.columns("val_acc_difference", "val_acc_low", "val_acc_high"),
        "val_acc_largest": max(map(abs, _present(pairs["val_acc_difference"])), default=None),
        "loss_largest": max(_present(pairs["loss_difference"]), default=None),
        "shown_different": low is not None and high is not None and not low <= 0 <= high,
    }


def _at_end(pairs: Rows, name: str) -> list[float]:
    """The values of `name` in the last epoch of each seed, without missing ones."""
    last = {seed: index for index, seed in enumerate(pairs["seed"].tolist())}
    return _present(pairs[name][list(last.values())])


def _present(values: np.ndarray) -> list[float]:
    """`values` that are not NaN."""
    return [value for value in values.tolist() if value == value]


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
