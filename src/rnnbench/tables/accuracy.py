"""Accuracy and loss at the last epoch, and accuracy outliers: configurations whose accuracy differs
from all others of the same task.

Runs of the same seed start from the same weights and see the same batches in every implementation,
build and device. The configurations of one task (model, RNN cell, dataset, overrides) therefore
differ less than seeds do. A configuration that is further from the others than a change of seed
explains has learnt something else.

The unit of the test is the seed. The difference of a configuration is the median, over the others,
of the mean difference in validation accuracy over their common seeds (the median of a single seed
would be biased near an accuracy of 1). The allowed difference is
Student's t for the spread between seeds within configurations, with C (S - 1) degrees of freedom
for C configurations of S seeds, with Šidák's correction over all tasks, because one sentence may
speak about all of them. This is exact if the results of different implementations are independent.
Many give the same bits: configurations that agree in each seed within the sampling error of the
accuracy on n validation samples, √(p (1 - p) / n), therefore count as one. The spread is at least
that error. Simulated (``benchmarks/accuracy.py``): an outlier is reported in at most 5 % of the
tasks in which all configurations are equal.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from rnnbench.axes import CONFIGURATION, TASK
from rnnbench.tables.frame import run_values
from rnnbench.tables.stats import sidak_confidence, student_quantile

MEASURES = ("acc", "val_acc", "loss", "val_loss")
MIN_SEEDS = 3  # that can show a difference in accuracy; with two, Student's t is 12.7 or more
TOO_FEW_SEEDS = "fewer than three seeds"
CONFIDENCE = 0.95  # that no outlier is reported if all configurations are equal
DISTANCES = ["seeds", "val_acc", "others", "difference", "allowed", "apart"]


def accuracy(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per configuration and machine, from runs that are not void.

    Columns: the configuration; `runs`, `suspect`, `seeds` (numbers of runs, suspect runs and
    different seeds), `epochs`; `not_learning` (bool: its training steps apply a gradient other than
    the computed one). Then, for each of `acc`, `val_acc` (shares, 0 to 1), `loss` and `val_loss` at
    the last epoch: the mean over runs and, as `…_sd`, the standard deviation between seeds, after
    averaging the runs of a seed (missing for a single seed, as repeats do not show the variation
    between seeds). Source: the epochs of the records.
    """
    values = run_values(frame)
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
    `seeds` to `apart` of `alike`, or None if the configuration cannot be compared. `samples` is
    the size of the validation set; `comparisons` their number in all tasks (None: this is the only
    task)."""
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
    results: list[dict[str, Any] | None] = []
    for index, own in enumerate(accuracies):
        others = np.delete(accuracies, index, axis=0)
        common = ~np.isnan(own) & (~np.isnan(others)).any(axis=0)
        seeds = int(common.sum())
        if seeds < MIN_SEEDS:
            results.append(None)
            continue
        gaps = (own - others)[:, common]
        gaps = gaps[(~np.isnan(gaps)).any(axis=1)]
        difference = float(np.median(np.nanmean(gaps, axis=1)))
        at_least = _sampling_variance(others[:, common], samples)
        variance = max(squares / degrees_of_freedom, at_least)
        standard_error = math.sqrt(variance * (1 + variance_of_others) / seeds)
        allowed = student_quantile(confidence, degrees_of_freedom) * standard_error
        results.append(
            {
                "seeds": seeds,
                "val_acc": float(own[common].mean()),
                "others": float(own[common].mean()) - difference,
                "difference": difference,
                "allowed": allowed,
                "apart": abs(difference) > allowed + 1e-9,
            }
        )
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
