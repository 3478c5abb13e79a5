"""Accuracy outliers are found if they exist, and rarely reported if they do not."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rnnbench.tables.accuracy import distances, find_accuracy_outliers
from rnnbench.tables.frame import tidy
from rnnbench.tables.stats import student_quantile
from tests.factory import TEST_SAMPLES, make_record, replace

TRIES = 500
# Measured: mnist_mlp in tf_1_2 on one thread, on two threads, and in current, three seeds each.
ONE_THREAD, TWO_THREADS, CURRENT = (0.667, 0.731, 0.773), (0.90, 0.92, 0.94), (0.91, 0.92, 0.93)


def records(accuracies):
    """`accuracies`: (build, device, rnn) → accuracy by seed."""
    for (build, device, rnn), by_seed in accuracies.items():
        for seed, acc in enumerate(by_seed):
            record = make_record(rnn=rnn, device=device, seed=seed, acc=acc)
            name = record.name.replace("current", build)
            yield replace(record, choices={**record.run.choices, "build": build}, name=name)


def compared(accuracies):
    table = find_accuracy_outliers(tidy(list(records(accuracies))))
    return {(row["build"], row["device"], row["rnn"]): row for row in table.to_dict("records")}


def test_an_outlier_is_found():
    accuracies = {
        ("tf_1_2", "cpu_1", "keras"): ONE_THREAD,
        ("tf_1_2", "cpu_2", "keras"): TWO_THREADS,
        ("current", "cpu_1", "keras"): CURRENT,
        ("current", "cpu_2", "keras"): CURRENT,
    }
    rows = compared(accuracies)
    assert [key for key, row in rows.items() if row["apart"]] == [("tf_1_2", "cpu_1", "keras")]
    row = rows["tf_1_2", "cpu_1", "keras"]
    assert row["seeds"] == 3 and row["others"] == pytest.approx(np.mean([0.91, 0.92, 0.93]))
    assert row["difference"] == pytest.approx(np.mean(ONE_THREAD) - 0.92)
    # By hand: three of them agree within the sampling error, so there are two configurations with
    # 2 · (3 - 1) degrees of freedom and one comparison.
    squares = sum(((np.array(a) - np.mean(a)) ** 2).sum() for a in (ONE_THREAD, TWO_THREADS))
    allowed = student_quantile(0.95, 4) * math.sqrt(squares / 4 * 2 / 3)
    assert row["allowed"] == pytest.approx(allowed)


def test_two_configurations_with_three_seeds_are_enough_and_two_seeds_show_nothing():
    two = {("tf_1_2", "cpu_1", "keras"): ONE_THREAD, ("tf_1_2", "cpu_2", "keras"): TWO_THREADS}
    assert all(row["apart"] for row in compared(two).values())
    assert compared({key: by_seed[:2] for key, by_seed in two.items()}) == {}


def test_spread_is_at_least_the_sampling_error_of_the_validation_set():
    # All others are equal: one sample of 359 more or less is not an outlier.
    accuracies = {(f"b{n}", "cpu_1", "keras"): (0.97,) * 3 for n in range(4)}
    accuracies["b4", "cpu_1", "keras"] = (0.97 - 1 / TEST_SAMPLES,) * 3
    assert not any(row["apart"] for row in compared(accuracies).values())
    accuracies["b4", "cpu_1", "keras"] = (0.90,) * 3
    assert compared(accuracies)["b4", "cpu_1", "keras"]["apart"]


def test_configurations_with_other_overrides_or_no_accuracy_are_not_compared():
    other = [make_record(seed=s, acc=0.5, overrides={"model.units": 8}) for s in range(3)]
    same = [make_record(seed=s, acc=0.97) for s in range(3)]
    assert find_accuracy_outliers(tidy([*other, *same])).empty
    assert find_accuracy_outliers(tidy([])).empty


@pytest.mark.parametrize(("count", "seeds"), [(2, 3), (3, 3), (8, 3), (8, 10)])
@pytest.mark.parametrize("shared", [0.0, 0.9])
def test_equal_configurations_give_an_outlier_in_at_most_5_percent_of_tasks(count, seeds, shared):
    """`shared`: the share of the variance between seeds that all configurations have in common."""
    generator, alarms, lost = np.random.default_rng(count * seeds), 0, 0.1 if seeds > 2 else 0
    for _ in range(TRIES):
        common = generator.normal(size=(1, seeds)) * math.sqrt(shared)
        own = generator.normal(size=(count, seeds)) * math.sqrt(1 - shared)
        accuracies = 0.9 + 0.02 * (common + own)
        accuracies[generator.random(accuracies.shape) < lost] = np.nan
        alarms += any(row["apart"] for row in distances(accuracies) if row)
    # 5 % plus three standard errors.
    assert alarms / TRIES <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / TRIES)


@pytest.mark.parametrize(("count", "seeds", "least"), [(2, 3, 0.9), (8, 3, 0.99)])
def test_an_outlier_of_six_spreads_is_found(count, seeds, least):
    generator, hits = np.random.default_rng(1), 0
    for _ in range(200):
        accuracies = 0.9 + 0.02 * generator.normal(size=(count, seeds))
        accuracies[0] -= 0.12
        first = distances(accuracies)[0]
        hits += first is not None and first["apart"]
    assert hits / 200 >= least
