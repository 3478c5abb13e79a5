"""Accuracy outliers: configurations whose accuracy differs from all others of the same task.

Runs of the same seed start from the same weights and see the same batches in every implementation,
build and device. The configurations of one task (model, RNN cell, dataset, overrides) therefore
differ less than seeds do. A configuration that is further from the others than a change of seed
explains has learnt something else.

The unit of the test is the seed. The difference of a configuration is the mean, over its seeds, of
its validation accuracy minus the median of the others with that seed. The allowed difference is
Student's t for the spread between seeds within configurations, with C (S - 1) degrees of freedom
for C configurations of S seeds, with Šidák's correction over the configurations. This is exact if
the results of different implementations are independent (the worst case) and conservative if they
agree seed by seed. With a single seed the spread between seeds is unknown; the spread between the
other configurations replaces it (an outlier test with C - 2 degrees of freedom), which needs four
configurations. Either spread is at least the sampling error of the accuracy on a validation set of
n samples, √(p (1 - p) / n). Simulated (``tests/tables/test_tables_alike.py``): the test reports an
outlier in at most 5 % of the tasks in which all configurations are equal.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from rnnbench.axes import CONFIGURATION, KEY, TASK
from rnnbench.tables.stats import sidak_confidence, student_quantile
from rnnbench.tables.usable_runs import run_values

MIN_FOR_ONE_SEED = 4  # configurations; with three, one degree of freedom shows nothing
CONFIDENCE = 0.95
ALIKE_COLUMNS = [*CONFIGURATION, "seeds", "val_acc", "others", "difference", "allowed", "apart"]


def find_accuracy_outliers(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per configuration that can be compared with others of its task.

    Columns: the configuration; `seeds`; `val_acc` at the last epoch (mean over its seeds, after
    averaging the runs of a seed); `others` (mean over these seeds of the median of the other
    configurations); `difference` of the two; `allowed` (see above); `apart` (bool: the difference
    exceeds the allowed one). Source: runs that are not void, on all machines, of models with a
    validation accuracy.
    """
    values = run_values(frame).dropna(subset=["val_acc"])
    evaluated = frame[frame["phase"] == "evaluate"].groupby(TASK)["samples"].min().to_dict()
    rows: list[dict[str, Any]] = []
    for task, runs in values.groupby(TASK, sort=False):
        table = runs.groupby([*KEY, "seed"], sort=False)["val_acc"].mean().unstack("seed")
        names = runs.drop_duplicates(KEY).set_index(KEY)["implementation"]
        results = distances(table.to_numpy(dtype=float), evaluated.get(task))
        for key, result in zip(table.index, results, strict=True):
            if result is not None:
                configuration = dict(zip(KEY, key, strict=True))
                rows.append({**configuration, "implementation": names[key], **result})
    return pd.DataFrame(rows, columns=ALIKE_COLUMNS)


def distances(accuracies: np.ndarray, samples: float | None = None) -> list[dict[str, Any] | None]:
    """For each row of `accuracies` (configurations × seeds, NaN for missing runs), the columns
    `seeds` to `apart` of `alike`, or None if the configuration cannot be compared. `samples` is
    the size of the validation set."""
    known = [row[~np.isnan(row)] for row in accuracies if not np.isnan(row).all()]
    count = len(known)
    degrees_within = sum(len(row) - 1 for row in known)
    results: list[dict[str, Any] | None] = []
    for index, own in enumerate(accuracies):
        others = np.delete(accuracies, index, axis=0)
        common = ~np.isnan(own) & (~np.isnan(others)).any(axis=0)
        seeds = int(common.sum())
        if count < 2 or not seeds or (not degrees_within and count < MIN_FOR_ONE_SEED):
            results.append(None)
            continue
        median = np.nanmedian(others[:, common], axis=0)
        if degrees_within:
            squares = sum(((row - row.mean()) ** 2).sum() for row in known)
            variance, degrees_of_freedom = float(squares) / degrees_within, degrees_within
        else:
            variance, degrees_of_freedom = float(np.nanvar(others, ddof=1)), count - 2
        if samples:
            share = float(median.mean())
            variance = max(variance, share * (1 - share) / samples)
        # A median has π/2 times the variance of the mean; of one or two values it is the mean.
        variance_of_others = (1 if count < 4 else math.pi / 2) / (count - 1)
        confidence = sidak_confidence(CONFIDENCE, count if count > 2 else 1)
        standard_error = math.sqrt(variance * (1 + variance_of_others) / seeds)
        allowed = student_quantile(confidence, degrees_of_freedom) * standard_error
        difference = float((own[common] - median).mean())
        results.append(
            {
                "seeds": seeds,
                "val_acc": float(own[common].mean()),
                "others": float(median.mean()),
                "difference": difference,
                "allowed": allowed,
                "apart": abs(difference) > allowed + 1e-9,
            }
        )
    return results
