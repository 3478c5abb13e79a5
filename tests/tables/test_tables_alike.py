"""Accuracies that differ between builds and threads: found where they are, seldom where not."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from rnnbench.tables.accuracy_outliers import alike, distances
from rnnbench.tables.frame import tidy
from rnnbench.tables.stats import student, together
from tests.factory import TEST_SAMPLES, make_record

TRIES = 500
# mnist_mlp in tf_1_2 on one thread, on two, and in current, three seeds each, as once measured.
ONE_THREAD, TWO_THREADS, CURRENT = (0.667, 0.731, 0.773), (0.90, 0.92, 0.94), (0.91, 0.92, 0.93)


def records(by_cell):
    """`by_cell`: (build, device, rnn) → accuracy by seed."""
    for (build, device, rnn), reached in by_cell.items():
        for seed, acc in enumerate(reached):
            one = make_record(rnn=rnn, device=device, seed=seed, acc=acc)
            name = one.name.replace("current", build)
            yield dataclasses.replace(one, choices={**one.choices, "build": build}, name=name)


def told(by_cell):
    table = alike(tidy(list(records(by_cell))))
    return {(r["build"], r["device"], r["rnn"]): r for r in table.to_dict("records")}


def test_one_thread_of_a_build_that_trains_something_else_is_found():
    cells = {
        ("tf_1_2", "cpu_1", "keras"): ONE_THREAD,
        ("tf_1_2", "cpu_2", "keras"): TWO_THREADS,
        ("current", "cpu_1", "keras"): CURRENT,
        ("current", "cpu_2", "keras"): CURRENT,
    }
    found = told(cells)
    assert [key for key, row in found.items() if row["apart"]] == [("tf_1_2", "cpu_1", "keras")]
    row = found["tf_1_2", "cpu_1", "keras"]
    assert row["seeds"] == 3 and row["others"] == pytest.approx(np.mean([0.91, 0.92, 0.93]))
    assert row["difference"] == pytest.approx(np.mean(ONE_THREAD) - 0.92)
    # By hand: the four cells' squares about their own means, over 4 · (3 - 1) degrees of freedom.
    squares = sum(((np.array(c) - np.mean(c)) ** 2).sum() for c in cells.values())
    half = student(together(0.95, 4), 8) * math.sqrt(squares / 8 * (1 + math.pi / 6) / 3)
    assert row["allowed"] == pytest.approx(half)


def test_two_cells_are_enough_with_seeds_and_one_seed_needs_four():
    two = {("tf_1_2", "cpu_1", "keras"): ONE_THREAD, ("tf_1_2", "cpu_2", "keras"): TWO_THREADS}
    assert all(row["apart"] for row in told(two).values())
    one = {(f"b{n}", "cpu_1", "keras"): (acc,) for n, acc in enumerate((0.66, 0.92, 0.921, 0.919))}
    assert [row["apart"] for row in told(one).values()] == [True, False, False, False]
    del one["b3", "cpu_1", "keras"]
    assert told(one) == {}


def test_the_validation_set_is_no_finer_than_its_samples():
    # All others alike to the digit: one sample of 359 more or less is no difference.
    cells = {(f"b{n}", "cpu_1", "keras"): (0.97,) * 3 for n in range(4)}
    cells["b4", "cpu_1", "keras"] = (0.97 - 1 / TEST_SAMPLES,) * 3
    assert not any(row["apart"] for row in told(cells).values())
    cells["b4", "cpu_1", "keras"] = (0.90,) * 3
    assert told(cells)["b4", "cpu_1", "keras"]["apart"]


def test_cells_with_other_overrides_or_without_an_accuracy_are_not_compared():
    other = [make_record(seed=s, acc=0.5, overrides={"model.units": 8}) for s in range(3)]
    same = [make_record(seed=s, acc=0.97) for s in range(3)]
    assert alike(tidy([*other, *same])).empty
    assert alike(tidy([])).empty


@pytest.mark.parametrize(("cells", "seeds"), [(2, 3), (3, 3), (8, 3), (8, 10), (4, 1), (12, 1)])
@pytest.mark.parametrize("shared", [0.0, 0.9])
def test_alike_cells_are_named_in_at_most_5_percent_of_tasks(cells, seeds, shared):
    """`shared`: how much of the variance between seeds all cells have in common."""
    generator, alarms, lost = np.random.default_rng(cells * seeds), 0, 0.1 if seeds > 2 else 0
    for _ in range(TRIES):
        common = generator.normal(size=(1, seeds)) * math.sqrt(shared)
        own = generator.normal(size=(cells, seeds)) * math.sqrt(1 - shared)
        reached = 0.9 + 0.02 * (common + own)
        reached[generator.random(reached.shape) < lost] = np.nan
        alarms += any(row["apart"] for row in distances(reached) if row)
    # 5 % and thrice the error of so many tries.
    assert alarms / TRIES <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / TRIES)


@pytest.mark.parametrize(("cells", "seeds", "least"), [(2, 3, 0.9), (8, 3, 0.99), (8, 1, 0.8)])
def test_what_is_six_spreads_away_is_found(cells, seeds, least):
    generator, hits = np.random.default_rng(1), 0
    for _ in range(200):
        reached = 0.9 + 0.02 * generator.normal(size=(cells, seeds))
        reached[0] -= 0.12
        first = distances(reached)[0]
        hits += first is not None and first["apart"]
    assert hits / 200 >= least
