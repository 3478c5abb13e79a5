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

from rnnbench.axes import CONFIGURATION, KEY, TASK, Row
from rnnbench.records.interval import Interval
from rnnbench.tables.estimates import Key, Measurements
from rnnbench.tables.frame import (
    Groups,
    columns_of,
    counted,
    identified,
    run_values,
    split,
    usable_epochs,
)
from rnnbench.tables.outcome import CurvesBy
from rnnbench.tables.stats import mean_interval, sidak_confidence, student_quantile

MEASURES = ("acc", "val_acc", "loss", "val_loss")
BY_SEED = [*CONFIGURATION, "seed"]
MIN_SEEDS = 3  # that can show a difference in accuracy; with two, Student's t is 12.7 or more
TOO_FEW_SEEDS = "fewer than three seeds"
CONFIDENCE = 0.95  # that no outlier is reported if all configurations are equal
OUTLIER_COLUMNS = [
    *CONFIGURATION,
    "seeds",
    "val_acc",
    "others",
    "difference",
    "allowed",
    "apart",
]
# The fields of `Curves`.
CURVE_COLUMNS = ["curve_steps", "curve_difference", "curve_allowed", "curve_judged_by"]
LEARNING_COLUMNS = [
    *CONFIGURATION,
    "is_reference",
    "suspect",
    "seeds",
    "val_acc",
    "val_acc_difference",
    "val_acc_low",
    "val_acc_high",
    "val_acc_largest",
    "loss_largest",
    "loss_apart",
    "shown_different",
    *CURVE_COLUMNS,
]
SHARE = 0.99  # of the accuracy that every run of the task reaches
TARGET_COLUMNS = [
    *CONFIGURATION,
    "target",
    "runs",
    "suspect",
    "reached",
    "seconds",
    "seconds_low",
    "seconds_high",
    "epochs",
]


def accuracy(measured: Measurements) -> pd.DataFrame:
    """One row per configuration and machine, from runs that are not void.

    Columns:

    - the configuration; `runs`, `suspect`, `seeds`: numbers of runs, suspect runs and different
      seeds.
    - `epochs`.
    - `not_learning` (bool: its training steps apply a gradient other than the computed one).
    - `acc`, `val_acc` (shares, 0 to 1), `loss` and `val_loss` at the last epoch: the mean over
      runs.
    - for each of these, as `…_sd`, the standard deviation between seeds, after averaging the runs
      of a seed (missing for a single seed, as repeats do not show the variation between seeds).

    Source: the epochs of the records.
    """
    values = measured.runs
    by_configuration = values.groupby(CONFIGURATION, sort=False)
    by_seed = values.groupby(BY_SEED, sort=False)
    table = by_configuration.agg(
        runs=("record", "count"),
        suspect=("suspect", "sum"),
        seeds=("seed", "nunique"),
        epochs=("epochs", "max"),
    )
    table["not_learning"] = by_configuration["not_learning"].any()
    for measure in MEASURES:
        table[measure] = by_configuration[measure].mean()
        of_seeds = by_seed[measure].mean()
        table[f"{measure}_sd"] = of_seeds.groupby(CONFIGURATION, sort=False).std()
    return table.reset_index()


def validation_samples(frame: pd.DataFrame, by: list[str]) -> dict[Any, float]:
    """The size of the validation set, by the values of `by`.

    `frame`: the tidy frame. What was never evaluated is missing.
    """
    evaluated = frame[frame["phase"] == "evaluate"]
    sizes = evaluated.groupby(by, sort=False)["samples"].min()
    return dict(sizes.dropna())


def find_accuracy_outliers(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per configuration that can be compared with others of its task.

    Columns:

    - the configuration; `seeds`.
    - `val_acc` at the last epoch: mean over its seeds, after averaging the runs of a seed.
    - `difference` from the others (see above); `others`: their accuracy (`val_acc` minus the
      difference).
    - `allowed`: the difference that a change of seed explains.
    - `apart` (bool: the difference exceeds the allowed one).

    Source: runs that are not void, on all machines, of models with a validation accuracy;
    configurations with at least `MIN_SEEDS` seeds in common with others.
    """
    values = run_values(frame).dropna(subset=["val_acc"])
    by_seed = values.groupby(BY_SEED, sort=False)["val_acc"].mean()
    sizes = validation_samples(frame, TASK)
    tasks = []
    comparisons = 0
    for task, runs in by_seed.groupby(TASK, sort=False):
        table = runs.unstack("seed").astype(float)
        size = sizes.get(task)
        tasks.append((table, size))
        comparisons += comparisons_of(table.to_numpy(), size)

    rows = []
    for table, size in tasks:
        found = distances(table.to_numpy(), size, comparisons)
        for configuration, distance in zip(table.index, found, strict=True):
            if distance:
                columns = dict(zip(CONFIGURATION, configuration, strict=True))
                rows.append(columns | distance)
    return pd.DataFrame(rows, columns=OUTLIER_COLUMNS)


def comparisons_of(accuracies: np.ndarray, samples: float | None = None) -> int:
    """The number of different comparisons between configurations.

    `accuracies`, `samples`: see `distances`.
    """
    count = len(_distinct(accuracies, samples))
    if count > 2:
        return count
    return 1


def distances(
    accuracies: np.ndarray,
    samples: float | None = None,
    comparisons: int | None = None,
) -> list[Row | None]:
    """For each row of `accuracies`, the columns `seeds` to `apart` of `find_accuracy_outliers`, or
    None if the configuration cannot be compared.

    - `accuracies`: configurations × seeds, NaN for missing runs.
    - `samples`: the size of the validation set.
    - `comparisons`: their number in all tasks (None: this is the only task).
    """
    distinct = _distinct(accuracies, samples)
    squares = []
    degrees_of_freedom = 0
    for row in distinct:
        present = row[~np.isnan(row)]
        deviations = present - present.mean()
        squares.append(float((deviations**2).sum()))
        degrees_of_freedom += len(present) - 1
    comparisons = comparisons or comparisons_of(accuracies, samples)
    confidence = sidak_confidence(CONFIDENCE, comparisons)

    # The variance of what a row is compared with, relative to that of a row.
    count = len(distinct)
    if count < len(accuracies):
        variance_of_others = 1.0  # of rows that agree, the median is one of them
    elif count < 4:
        variance_of_others = 1 / max(count - 1, 1)  # the median of one or two values is their mean
    else:
        variance_of_others = math.pi / 2 / (count - 1)  # a median has π/2 times that of the mean

    results: list[Row | None] = [None] * len(accuracies)
    for index, own in enumerate(accuracies):
        others = np.delete(accuracies, index, axis=0)
        common = ~(np.isnan(own) | np.isnan(others).all(axis=0))
        seeds = int(common.sum())
        if seeds < MIN_SEEDS:
            continue
        gaps = (own - others)[:, common]
        gaps = gaps[(~np.isnan(gaps)).any(axis=1)]
        difference = float(np.median(np.nanmean(gaps, axis=1)))
        at_least = _sampling_variance(others[:, common], samples)
        variance = max(sum(squares) / degrees_of_freedom, at_least)
        standard_error = math.sqrt(variance * (1 + variance_of_others) / seeds)
        allowed = student_quantile(confidence, degrees_of_freedom) * standard_error
        mean = float(own[common].mean())
        results[index] = {
            "seeds": seeds,
            "val_acc": mean,
            "others": mean - difference,
            "difference": difference,
            "allowed": allowed,
            "apart": abs(difference) > allowed + 1e-9,
        }
    return results


def _distinct(accuracies: np.ndarray, samples: float | None) -> list[np.ndarray]:
    """The rows without those that agree with another one within the sampling error, in each seed
    that both have. Of rows that agree, it is the one with most seeds.

    - `accuracies`: configurations × seeds, NaN for missing runs.
    - `samples`: the size of the validation set; None if it is unknown.
    """
    error = math.sqrt(_sampling_variance(accuracies, samples)) + 1e-9
    distinct: list[np.ndarray] = []
    missing = np.isnan(accuracies).sum(axis=1)
    for row in accuracies[np.argsort(missing, kind="stable")]:
        differs = [bool((np.abs(row - other) > error).any()) for other in distinct]
        if all(differs):
            distinct.append(row)
    return distinct


def _sampling_variance(accuracies: np.ndarray, samples: float | None) -> float:
    """The variance of an accuracy: p (1 - p) / n.

    - `accuracies`: their median is p.
    - `samples`: n; 0 or None if it is unknown, which gives 0.
    """
    if not samples:
        return 0.0
    share = float(np.nanmedian(accuracies))
    return share * (1 - share) / samples


def learning(measured: Measurements, together: bool = False) -> pd.DataFrame:
    """One row per configuration that has a seed in common with its reference.

    Columns:

    - the configuration; `is_reference` (bool).
    - `suspect`: number of suspect runs, its own and the reference's.
    - `seeds`: number of common seeds.
    - `val_acc` at the last epoch: mean over these seeds.
    - `val_acc_difference` from the reference: mean over seeds, after averaging the runs of a seed,
      with the interval `val_acc_low`, `val_acc_high` (`accuracy_interval`). The 95 % hold for all
      configurations of a group at once or, if `together`, for the whole table.
    - `val_acc_largest`, `loss_largest`: the largest absolute difference of the validation-accuracy
      curves and of the loss curves over seeds and epochs. `loss_apart`: the latter, relative to the
      largest loss of the reference.
    - `shown_different` (bool: the interval exists and excludes 0).
    - `curve_steps`, `curve_difference`, `curve_allowed`: how far the loss curves are apart in the
      certificate that compared the two, over so many training steps, relative to the largest loss,
      and what is allowed. `curve_judged_by`: a `CurvesBy`, not asked for the reference.

    Source: epochs of runs that are not void; the certificates.
    """
    epochs = usable_epochs(measured.frame)
    if epochs.empty:
        return pd.DataFrame(columns=LEARNING_COLUMNS)
    against = measured.against
    groups = measured.groups
    pairs = _with_reference(epochs, against)
    pairs["difference"] = pairs["val_acc"] - pairs["val_acc_base"]
    pairs["loss_difference"] = (pairs["loss"] - pairs["loss_base"]).abs()
    last = pairs.drop_duplicates([*KEY, "seed"], keep="last")
    at_end = split(last, KEY, ["val_acc", "difference"])

    simultaneous = _simultaneous(measured, at_end, together)
    samples = validation_samples(measured.frame, KEY)
    rows = []
    wanted = ["difference", "loss_difference", "loss_base"]
    for key, own in split(pairs, KEY, wanted).items():
        base = against[key]
        accuracies = _present(at_end[key]["val_acc"])
        differences = _present(at_end[key]["difference"])
        interval = accuracy_interval(differences, samples.get(key), simultaneous[key])
        suspect = groups[key]["suspect"].sum() + groups[base]["suspect"].sum()
        loss_largest = max(_present(own["loss_difference"]), default=None)
        largest_loss = max(_present(np.abs(own["loss_base"])), default=0.0)
        loss_apart = None
        if loss_largest is not None and largest_loss:
            loss_apart = loss_largest / largest_loss
        curves: Row = {"curve_judged_by": CurvesBy.NOT_ASKED}
        if base != key:
            found = measured.curves(key, base) or (None, None, None, CurvesBy.NOTHING)
            curves = dict(zip(CURVE_COLUMNS, found, strict=True))
        rows.append(
            {
                **identified(key, groups[key]),
                "is_reference": base == key,
                "suspect": int(suspect),
                "seeds": len(at_end[key]["val_acc"]),
                "val_acc": statistics.fmean(accuracies) if accuracies else None,
                **interval.columns("val_acc_difference", "val_acc_low", "val_acc_high"),
                "val_acc_largest": max(_present(np.abs(own["difference"])), default=None),
                "loss_largest": loss_largest,
                "loss_apart": loss_apart,
                "shown_different": interval.excludes(0),
                **curves,
            }
        )
    table = pd.DataFrame(rows, columns=LEARNING_COLUMNS)
    # A model without an accuracy (a regression) has None, which would give an object column.
    begin = LEARNING_COLUMNS.index("val_acc")
    end = LEARNING_COLUMNS.index("shown_different")
    numeric = LEARNING_COLUMNS[begin:end] + CURVE_COLUMNS[1:3]
    table = table.astype(dict.fromkeys(numeric, "float64"))
    return table.astype({"curve_steps": "Int64"})


def _simultaneous(measured: Measurements, at_end: Groups, together: bool) -> dict[Key, int]:
    """Configuration → the number of comparisons that its interval holds for at once.

    - `at_end`: the differences of each configuration at the last epoch.
    - `together`: whether the whole table is one family, else each group.
    """
    axes = []
    if not together:
        axes = measured.group_axes
    families = {}
    counts: Counter[Key] = Counter()
    for key, own in at_end.items():
        columns = columns_of(key)
        families[key] = tuple(columns[axis] for axis in axes)
        seeds = len(_present(own["difference"]))
        if measured.against[key] != key and seeds >= MIN_SEEDS:
            counts[families[key]] += 1
    return {key: counts[family] for key, family in families.items()}


def _with_reference(epochs: pd.DataFrame, against: Mapping[Key, Key]) -> pd.DataFrame:
    """Loss and validation accuracy by configuration, seed and epoch (averaged over the runs of a
    seed), with `loss_base` and `val_acc_base`: those of the reference with the same seed and epoch.
    Rows without a counterpart are omitted.

    - `epochs`: the usable epochs of the tidy frame.
    - `against`: configuration → its reference.
    """
    by = [*KEY, "seed", "epoch"]
    means = epochs.groupby(by, sort=False)[["loss", "val_acc"]].mean().reset_index()
    bases = [against[key] for key in means[KEY].itertuples(index=False, name=None)]
    wanted = pd.DataFrame(bases, columns=KEY)
    wanted[["seed", "epoch"]] = means[["seed", "epoch"]]
    base = wanted.merge(means.assign(exists=True), on=by, how="left")
    means["loss_base"] = base["loss"]
    means["val_acc_base"] = base["val_acc"]
    return means[base["exists"].eq(True)].copy()


def accuracy_interval(
    differences: Sequence[float],
    samples: float | None,
    comparisons: int = 1,
) -> Interval:
    """The mean of differences in accuracy with its 95 % interval (Student's t with Šidák's
    correction).

    - `differences`: one for each seed.
    - `samples`: the size of the validation set. Without it, and with fewer than `MIN_SEEDS`
      differences, there is no interval.
    - `comparisons`: the number of those that the 95 % hold for at once.
    """
    if not differences:
        return Interval.around(math.nan, None)
    n = len(differences)
    mean = statistics.fmean(differences)
    if n < MIN_SEEDS or not samples:
        return Interval.around(mean, None)
    confidence = sidak_confidence(0.95, max(comparisons, 1))
    quantile = student_quantile(confidence, n - 1)
    deviation = max(statistics.stdev(differences), 1 / samples)
    return Interval.around(mean, quantile * deviation / math.sqrt(n))


def _present(values: np.ndarray) -> list[float]:
    """`values` that are not NaN."""
    return list(map(float, values[~np.isnan(values)]))


def with_elapsed(frame: pd.DataFrame) -> pd.DataFrame:
    """The timed epochs of runs that are not void, with `elapsed`: seconds of training until the end
    of the epoch, without start-up and validation. If the run has a time by its turns, the epochs
    are as much shorter or longer as its time (`frame.run_values`)."""
    epochs = usable_epochs(frame).copy()
    own = counted(epochs).groupby("record", sort=False)["seconds"].median()
    by_turns = np.array([value.seconds for value in epochs["value"]])
    elapsed = epochs.groupby("record", sort=False)["seconds"].cumsum()
    epochs["elapsed"] = elapsed * by_turns / own.reindex(epochs["record"]).to_numpy()
    return epochs


def curves(frame: pd.DataFrame, measure: str) -> pd.DataFrame:
    """One row per configuration and epoch. Epochs without a value are omitted.

    Columns:

    - the configuration; `epoch`.
    - `elapsed`: seconds, mean over runs.
    - `mean`, `low` and `high` (minimum and maximum over runs) of `measure` (``loss``, ``val_acc``,
      …).
    - `suspect` (bool: at least one run is suspect).

    Source: epochs of runs that are not void.
    """
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

    Columns:

    - the configuration; `runs`, `suspect` and `reached`: numbers of runs.
    - `target`: 99 % of the lowest of the best accuracies of all runs of the task (model, RNN cell,
      dataset, variant), so that it depends neither on other tasks nor on a lucky run.
    - `seconds` of training until the end of the first epoch that reaches the target (geometric mean
      over the runs that do) with the 95 % interval `seconds_low`, `seconds_high`.
    - `epochs` until then (median).

    Source: runs that are not void.
    """
    epochs = with_elapsed(frame).dropna(subset=["val_acc"])
    if epochs.empty:
        return pd.DataFrame(columns=TARGET_COLUMNS)
    best = epochs.groupby("record", sort=False)["val_acc"].transform("max")
    lowest = best.groupby([epochs[name] for name in TASK]).transform("min")
    epochs["target"] = SHARE * lowest
    first = epochs[epochs["val_acc"] >= epochs["target"]].drop_duplicates("record")
    reached = split(first, CONFIGURATION, ["elapsed", "epoch"])
    every = split(epochs.drop_duplicates("record"), CONFIGURATION, ["target", "verdict"])
    rows = []
    for key, runs in every.items():
        row: Row = {
            **dict(zip(CONFIGURATION, key, strict=True)),
            "target": runs["target"][0],
            "runs": len(runs["target"]),
            "suspect": int((runs["verdict"] == "suspect").sum()),
            "reached": 0,
        }
        if key in reached:
            own = reached[key]
            seconds = mean_interval(own["elapsed"].tolist())
            row |= seconds.columns("seconds")
            row["reached"] = len(own["epoch"])
            row["epochs"] = statistics.median(own["epoch"])
        rows.append(row)
    return pd.DataFrame(rows, columns=TARGET_COLUMNS)
