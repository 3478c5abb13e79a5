"""Comparison of learning: accuracy and loss at the last epoch and against the reference, seed by
seed; accuracy outliers, which are configurations whose accuracy differs from all others of the same
task; learning curves; and the time to a target accuracy.

Runs of the same seed start from the same weights and see the same batches in every implementation,
build and device. A configuration of a task (model, RNN cell, dataset, overrides) that is further
from the others than a change of seed explains has learnt something else.

The unit of the test is the seed. The difference of a configuration is the median, over the others,
of the mean difference in validation accuracy over their common seeds (the median of a single seed
would be biased near an accuracy of 1). The allowed difference is Student's t for the spread between
seeds within configurations, with C (S - 1) degrees of freedom for C configurations of S seeds, with
Šidák's correction over all tasks, because one sentence may speak about all of them. Configurations
that agree in each seed within the sampling error of the accuracy on n validation samples,
√(p (1 - p) / n), count as one, because many give the same bits. The spread is at least that error.

Accuracies are multiples of 1 / n, so the differences of a few seeds are often equal, which says
little about their spread. It is therefore taken to be at least 1 / n. Simulated in
``benchmarks/accuracy.py``.
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
from rnnbench.tables.estimates import Key, Measurements
from rnnbench.tables.frame import ends, identified, run_values, split, usable_epochs
from rnnbench.tables.stats import Interval, mean_interval, sidak_confidence, student_quantile

MEASURES = ("acc", "val_acc", "loss", "val_loss")
MIN_SEEDS = 3  # that can show a difference in accuracy; with two, Student's t is 12.7 or more
TOO_FEW_SEEDS = "fewer than three seeds"
CONFIDENCE = 0.95  # that no outlier is reported if all configurations are equal
DISTANCES = ["seeds", "val_acc", "others", "difference", "allowed", "apart"]
LEARNING_COLUMNS = [
    *CONFIGURATION, "is_reference", "suspect", "seeds", "val_acc", "val_acc_difference",
    "val_acc_low", "val_acc_high", "val_acc_largest", "loss_largest", "shown_different",
]  # fmt: skip
SHARE = 0.99  # of the accuracy that every run of the task reaches
TARGET_COLUMNS = [
    *CONFIGURATION, "target", "runs", "suspect", "reached", *ends("seconds"), "epochs",
]  # fmt: skip


def accuracy(measured: Measurements) -> pd.DataFrame:
    """One row per configuration and machine, from runs that are not void.

    Columns: the configuration; `runs`, `suspect`, `seeds` (numbers of runs, suspect runs and
    different seeds), `epochs`; `not_learning` (bool: its training steps apply a gradient other than
    the computed one). Then, for each of `acc`, `val_acc` (shares, 0 to 1), `loss` and `val_loss` at
    the last epoch: the mean over runs and, as `…_sd`, the standard deviation between seeds, after
    averaging the runs of a seed (missing for a single seed, as repeats do not show the variation
    between seeds). Source: the epochs of the records.
    """
    values = measured.runs
    by_configuration = values.groupby(CONFIGURATION, sort=False)
    by_seed = values.groupby([*CONFIGURATION, "seed"], sort=False)
    table = by_configuration.agg(
        runs=("record", "count"),
        suspect=("suspect", "sum"),
        seeds=("seed", "nunique"),
        epochs=("epochs", "max"),
    )
    table["not_learning"] = by_configuration["not_learning"].any()
    for measure in MEASURES:
        table[measure] = by_configuration[measure].mean()
        table[f"{measure}_sd"] = by_seed[measure].mean().groupby(CONFIGURATION, sort=False).std()
    return table.reset_index()


def validation_samples(frame: pd.DataFrame, by: list[str]) -> dict[Any, float]:
    """The size of the validation set, by the values of `by`."""
    sizes = frame[frame["phase"] == "evaluate"].groupby(by, sort=False)["samples"].min()
    return dict(sizes.dropna())


def find_accuracy_outliers(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per configuration that can be compared with others of its task.

    Columns: the configuration; `seeds`; `val_acc` at the last epoch (mean over its seeds, after
    averaging the runs of a seed); the `difference` from the others (see above); `others`: their
    accuracy (`val_acc` minus the difference); `allowed`; `apart` (bool: the difference exceeds
    the allowed one). Source: runs that are not void, on all machines, of models with a
    validation accuracy; configurations with at least `MIN_SEEDS` seeds in common with others.
    """
    values, sizes = run_values(frame).dropna(subset=["val_acc"]), validation_samples(frame, TASK)
    by_seed = values.groupby([*CONFIGURATION, "seed"], sort=False)["val_acc"].mean()
    tasks = [
        (runs.unstack("seed"), sizes.get(task)) for task, runs in by_seed.groupby(TASK, sort=False)
    ]
    comparisons = sum(comparisons_of(table.to_numpy(dtype=float), size) for table, size in tasks)
    rows = [
        {**dict(zip(CONFIGURATION, configuration, strict=True)), **found}
        for table, size in tasks
        for configuration, found in zip(
            table.index, distances(table.to_numpy(dtype=float), size, comparisons), strict=True
        )
        if found
    ]
    return pd.DataFrame(rows, columns=[*CONFIGURATION, *DISTANCES])


def comparisons_of(accuracies: np.ndarray, samples: float | None = None) -> int:
    """The number of different comparisons between the rows of `accuracies` (see `distances`)."""
    count = len(_distinct(accuracies, samples))
    return count if count > 2 else 1


def distances(
    accuracies: np.ndarray, samples: float | None = None, comparisons: int | None = None
) -> list[dict[str, Any] | None]:
    """For each row of `accuracies` (configurations × seeds, NaN for missing runs), the columns
    `seeds` to `apart` of `find_accuracy_outliers`, or None if the configuration cannot be compared.
    `samples` is the size of the validation set; `comparisons` their number in all tasks (None: this
    is the only task)."""
    distinct = _distinct(accuracies, samples)
    known = [row[~np.isnan(row)] for row in distinct]
    squares = sum(float(((row - row.mean()) ** 2).sum()) for row in known)
    degrees_of_freedom = sum(len(row) - 1 for row in known)
    confidence = sidak_confidence(CONFIDENCE, comparisons or comparisons_of(accuracies, samples))
    # A median has π/2 times the variance of the mean; of one or two values it is the mean, and of
    # rows that agree it is one of them.
    count, all_differ = len(known), len(known) == len(accuracies)
    one_of_others = 1 if count < 4 else math.pi / 2
    variance_of_others = one_of_others / max(count - 1, 1) if all_differ else 1.0
    results: list[dict[str, Any] | None] = [None] * len(accuracies)
    for index, own in enumerate(accuracies):
        others = np.delete(accuracies, index, axis=0)
        common = ~np.isnan(own) & (~np.isnan(others)).any(axis=0)
        seeds = int(common.sum())
        if seeds < MIN_SEEDS:
            continue
        gaps = (own - others)[:, common]
        gaps = gaps[(~np.isnan(gaps)).any(axis=1)]
        difference = float(np.median(np.nanmean(gaps, axis=1)))
        at_least = _sampling_variance(others[:, common], samples)
        variance = max(squares / degrees_of_freedom, at_least)
        standard_error = math.sqrt(variance * (1 + variance_of_others) / seeds)
        allowed = student_quantile(confidence, degrees_of_freedom) * standard_error
        results[index] = {
            "seeds": seeds,
            "val_acc": float(own[common].mean()),
            "others": float(own[common].mean()) - difference,
            "difference": difference,
            "allowed": allowed,
            "apart": abs(difference) > allowed + 1e-9,
        }
    return results


def _distinct(accuracies: np.ndarray, samples: float | None) -> list[np.ndarray]:
    """The rows without those that agree with another one within the sampling error, in each seed
    that both have. Of rows that agree, it is the one with most seeds."""
    error = math.sqrt(_sampling_variance(accuracies, samples)) + 1e-9
    distinct: list[np.ndarray] = []
    for row in sorted(accuracies, key=lambda row: int(np.isnan(row).sum())):
        if all((np.abs(row - other) > error).any() for other in distinct):
            distinct.append(row)
    return distinct


def _sampling_variance(accuracies: np.ndarray, samples: float | None) -> float:
    """The variance of an accuracy on `samples` samples: p (1 - p) / n."""
    share = float(np.nanmedian(accuracies))
    return share * (1 - share) / samples if samples else 0.0


def learning(measured: Measurements, together: bool = False) -> pd.DataFrame:
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
    epochs, against, groups = usable_epochs(measured.frame), measured.against, measured.groups
    if epochs.empty:
        return pd.DataFrame(columns=LEARNING_COLUMNS)
    pairs = _with_reference(epochs, against)
    pairs["difference"] = pairs["val_acc"] - pairs["val_acc_base"]
    pairs["loss_difference"] = (pairs["loss"] - pairs["loss_base"]).abs()
    configurations = split(pairs, KEY, ["difference", "loss_difference"])
    last = pairs.drop_duplicates([*KEY, "seed"], keep="last")
    at_end = split(last, KEY, ["val_acc", "difference"])
    differences = {key: _present(own["difference"]) for key, own in at_end.items()}
    family = [KEY.index(name) for name in GROUP if name not in measured.reference and not together]
    families = {key: tuple(key[index] for index in family) for key in configurations}
    comparisons = Counter(
        families[key]
        for key, own in differences.items()
        if against[key] != key and len(own) >= MIN_SEEDS
    )
    samples, rows = validation_samples(measured.frame, KEY), []
    for key, own in configurations.items():
        base, accuracies = against[key], _present(at_end[key]["val_acc"])
        interval = accuracy_interval(differences[key], samples.get(key), comparisons[families[key]])
        rows.append(
            {
                **identified(key, groups[key]),
                "is_reference": base == key,
                "suspect": int(groups[key]["suspect"].sum() + groups[base]["suspect"].sum()),
                "seeds": len(at_end[key]["val_acc"]),
                "val_acc": statistics.fmean(accuracies) if accuracies else None,
                **interval.columns("val_acc_difference", "val_acc_low", "val_acc_high"),
                "val_acc_largest": max(map(abs, _present(own["difference"])), default=None),
                "loss_largest": max(_present(own["loss_difference"]), default=None),
                "shown_different": interval.excludes(0),
            }
        )
    table = pd.DataFrame(rows, columns=LEARNING_COLUMNS)
    # A model without an accuracy (a regression) has None, which would give an object column.
    numeric = LEARNING_COLUMNS[LEARNING_COLUMNS.index("val_acc") : -1]
    return table.astype(dict.fromkeys(numeric, "float64"))


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
    n, half = len(differences), None
    mean = statistics.fmean(differences) if differences else math.nan
    if n >= MIN_SEEDS and samples:
        quantile = student_quantile(sidak_confidence(0.95, max(comparisons, 1)), n - 1)
        half = quantile * max(statistics.stdev(differences), 1 / samples) / math.sqrt(n)
    return Interval.around(mean, half)


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
    best = epochs.groupby("record", sort=False)["val_acc"].transform("max")
    epochs["target"] = SHARE * best.groupby([epochs[name] for name in TASK]).transform("min")
    first = epochs[epochs["val_acc"] >= epochs["target"]].drop_duplicates("record")
    reached = split(first, CONFIGURATION, ["elapsed", "epoch"])
    rows = []
    every = split(epochs.drop_duplicates("record"), CONFIGURATION, ["target", "verdict"])
    for key, runs in every.items():
        row = {
            **dict(zip(CONFIGURATION, key, strict=True)),
            "target": runs["target"][0],
            "runs": len(runs["target"]),
            "suspect": int((runs["verdict"] == "suspect").sum()),
            "reached": 0,
        }
        if own := reached.get(key):
            row |= {
                "reached": len(own["epoch"]),
                **mean_interval(own["elapsed"].tolist()).columns("seconds"),
                "epochs": statistics.median(own["epoch"]),
            }
        rows.append(row)
    return pd.DataFrame(rows, columns=TARGET_COLUMNS)
