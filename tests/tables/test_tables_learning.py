"""Accuracy, learning and accuracy outliers: differences that exist are shown, and others in at most
5 % of the tasks."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from benchmarks.accuracy import has_outlier, is_shown, share
from rnnbench.tables.certificates import Certificates
from rnnbench.tables.frame import run_values, tidy
from rnnbench.tables.learning import (
    accuracy,
    accuracy_interval,
    curves,
    distances,
    find_accuracy_outliers,
    learning,
    target,
)
from rnnbench.tables.runs import runs
from rnnbench.tables.stats import student_quantile
from tests.factory import (
    TEST_SAMPLES,
    in_round,
    make_late,
    make_record,
    make_runs,
    make_seeds,
    measured,
    replace,
)
from tests.report.made_up import as_read, certificate

FEW_STEPS = (TEST_SAMPLES, 0.97, 0.02, 0.002, 0)  # differences of 0 to 2 validation samples
FINE = (25000, 0.85, 0.001, 0.01, 0.8)  # 80 % compute the same bits as the reference


def at_most_5_percent(tries):
    """5 % plus three standard errors."""
    return 0.05 + 3 * math.sqrt(0.05 * 0.95 / tries)


@pytest.mark.parametrize(
    ("found", "tries", "seeds", "comparisons", "setting"),
    [
        (is_shown, 400, 3, 13, FEW_STEPS),
        (is_shown, 400, 3, 7, FINE),
        (is_shown, 400, 10, 13, FINE[:4] + (0,)),
        (has_outlier, 150, 3, 13, FINE),  # those that agree do not make the others outliers
    ],
)
def test_what_does_not_exist_is_rarely_shown(found, tries, seeds, comparisons, setting):
    assert share(found, tries, seeds, comparisons, setting) <= at_most_5_percent(tries)


def test_a_difference_of_5_points_is_shown_from_five_seeds():
    assert share(is_shown, 200, 5, 13, (2000, 0.9, 0.01, 0.005, 0), gain=-0.05) > 0.9


def test_equal_differences_give_an_interval_of_at_least_one_validation_sample():
    interval = accuracy_interval([0.01] * 3, 100)
    assert interval.high - interval.low == pytest.approx(2 * 4.3026527 * 0.01 / math.sqrt(3))
    assert accuracy_interval([0.01] * 2, 100).low is None
    assert accuracy_interval([0.01] * 3, None).low is None


def test_the_intervals_hold_for_a_group_or_for_all_groups_together():
    levels = {"keras": (0.9,) * 3, "block": (0.9, 0.91, 0.92), "cell": (0.9, 0.89, 0.88)}
    every = measured([*make_seeds(levels), *make_seeds(levels, cell="gru")])
    for together, count in ((False, 2), (True, 4)):
        row = learning(every, together).set_index("rnn").loc["block"].iloc[0]
        expected = accuracy_interval([0, 0.01, 0.02], 359, count)
        width = row["val_acc_high"] - row["val_acc_low"]
        assert width == pytest.approx(expected.high - expected.low)


# Measured: mnist_mlp in tf_1_2 on one thread, on two threads, and in current, three seeds each.
ONE_THREAD, TWO_THREADS, CURRENT = (0.667, 0.731, 0.773), (0.90, 0.92, 0.94), (0.91, 0.92, 0.93)
OLD = {("tf_1_2", "cpu_1"): ONE_THREAD, ("tf_1_2", "cpu_2"): TWO_THREADS}


def compared(accuracies):
    """(build, device) → its row of the outliers; `accuracies`: of each seed."""
    records = [
        record
        for (build, device), by_seed in accuracies.items()
        for record in make_seeds({"keras": by_seed}, build=build, device=device)
    ]
    table = find_accuracy_outliers(tidy(records))
    return {(row["build"], row["device"]): row for row in table.to_dict("records")}


def test_an_outlier_is_found():
    rows = compared(OLD | {("current", device): CURRENT for device in ("cpu_1", "cpu_2")})
    assert [key for key, row in rows.items() if row["apart"]] == [("tf_1_2", "cpu_1")]
    row = rows["tf_1_2", "cpu_1"]
    assert row["seeds"] == 3 and row["others"] == pytest.approx(np.mean([0.91, 0.92, 0.93]))
    assert row["difference"] == pytest.approx(np.mean(ONE_THREAD) - 0.92)
    # By hand: three of them agree within the sampling error, so there are two configurations with
    # 2 · (3 - 1) degrees of freedom and one comparison.
    squares = sum(((np.array(a) - np.mean(a)) ** 2).sum() for a in (ONE_THREAD, TWO_THREADS))
    allowed = student_quantile(0.95, 4) * math.sqrt(squares / 4 * 2 / 3)
    assert row["allowed"] == pytest.approx(allowed)


def test_two_configurations_with_three_seeds_are_enough_and_two_seeds_show_nothing():
    assert all(row["apart"] for row in compared(OLD).values())
    assert compared({key: by_seed[:2] for key, by_seed in OLD.items()}) == {}


@pytest.mark.parametrize(("acc", "is_apart"), [(0.97 - 1 / TEST_SAMPLES, False), (0.90, True)])
def test_spread_is_at_least_the_sampling_error_of_the_validation_set(acc, is_apart):
    # All others are equal: one sample of 359 more or less is not an outlier.
    accuracies = {(f"b{n}", "cpu_1"): (0.97,) * 3 for n in range(4)} | {("b4", "cpu_1"): (acc,) * 3}
    rows = compared(accuracies)
    assert rows["b4", "cpu_1"]["apart"] == is_apart
    assert sum(row["apart"] for row in rows.values()) == is_apart


def test_configurations_with_other_overrides_or_no_accuracy_are_not_compared():
    other = make_seeds({"keras": [0.5] * 3}, overrides={"model.units": 8})
    same = make_seeds({"keras": [0.97] * 3})
    assert find_accuracy_outliers(tidy([*other, *same])).empty
    assert find_accuracy_outliers(tidy([])).empty


@pytest.mark.parametrize(("count", "seeds"), [(2, 3), (3, 3), (8, 3), (8, 10)])
@pytest.mark.parametrize("shared", [0.0, 0.9])
def test_equal_configurations_give_an_outlier_in_at_most_5_percent_of_tasks(count, seeds, shared):
    """`shared`: the share of the variance between seeds that all configurations have in common."""
    generator, alarms = np.random.default_rng(count * seeds), 0
    for _ in range(500):
        common = generator.normal(size=(1, seeds)) * math.sqrt(shared)
        own = generator.normal(size=(count, seeds)) * math.sqrt(1 - shared)
        accuracies = 0.9 + 0.02 * (common + own)
        accuracies[generator.random(accuracies.shape) < 0.1] = np.nan
        alarms += any(row["apart"] for row in distances(accuracies) if row)
    assert alarms / 500 <= at_most_5_percent(500)


def test_accuracy_by_hand():
    row = accuracy(measured(make_seeds({"keras": (0.9, 1.0)}))).iloc[0]
    assert row["val_acc"] == pytest.approx(0.95) and row["seeds"] == 2
    assert row["val_acc_sd"] == pytest.approx(math.sqrt(0.005))


def test_a_missing_last_loss_is_not_taken_from_an_earlier_epoch():
    record = make_record(epochs=3)
    last = replace(record.epochs[-1], loss=None, val_acc=None)
    every = measured([replace(record, epochs=(*record.epochs[:-1], last))])
    assert pd.isna(accuracy(every).iloc[0]["val_acc"])
    assert pd.isna(runs(every.frame).iloc[0]["loss"])


def test_learning_by_hand():
    every = measured(make_seeds({"keras": (0.90, 0.92, 0.94), "block": (0.89, 0.90, 0.925)}))
    row = learning(every).set_index("rnn").loc["block"]
    assert row["val_acc_difference"] == pytest.approx(-0.015)
    assert row["val_acc_high"] == pytest.approx(-0.015 + 4.3026527 * 0.005 / 3**0.5)
    assert row["val_acc_largest"] == pytest.approx(0.02) and row["shown_different"]
    assert row["loss_largest"] == 0
    assert row["val_acc"] == pytest.approx((0.89 + 0.90 + 0.925) / 3)


def test_what_no_run_reported_is_missing() -> None:
    records = []
    for record in make_seeds({"keras": (0.90, 0.92), "block": (0.90, 0.92)}):
        epochs = [replace(epoch, val_acc=None, loss=None) for epoch in record.epochs]
        records.append(replace(record, epochs=tuple(epochs)))
    row = learning(measured(records)).set_index("rnn").loc["block"]
    assert row[["val_acc", "val_acc_largest", "loss_largest", "loss_apart"]].isna().all()
    assert row["seeds"] == 2 and not row["shown_different"]


def test_loss_curves_are_compared_by_certificates_and_in_the_runs() -> None:
    """The largest loss of the reference is 2.0; the losses differ by 0.01 in one epoch."""
    records = make_runs({"keras": 0.5, "block": 0.4}, repeats=1, model="mnist_rnn", build="tf_2_21")
    changed = []
    for record in records:
        losses = [2.0, 1.5, 1.0, 0.5, 0.25]
        if record.run.choices["rnn"] == "block":
            losses[2] += 0.01
        epochs = []
        for epoch, loss in zip(record.epochs, losses, strict=True):
            epochs.append(replace(epoch, loss=loss))
        changed.append(replace(record, epochs=tuple(epochs)))
    made = certificate("tf_2_21") | {"machine": None}
    for pair in made["pairs"]:
        pair |= {"noise": {"loss_curve": 1e-6}}
    judged = Certificates(as_read(made), tuple(changed))
    table = learning(measured(changed, certificates=judged)).set_index("rnn")
    row = table.loc["block"]
    assert row["loss_largest"] == pytest.approx(0.01)
    assert row["loss_apart"] == pytest.approx(0.005)
    assert row["curve_judged_by"] == "twin" and row["curve_steps"] == 20
    assert row["curve_difference"] == 1e-6 and row["curve_allowed"] == pytest.approx(3e-5)
    assert table.loc["keras", "curve_judged_by"] == ""
    assert pd.isna(table.loc["keras", "curve_difference"])
    alone = learning(measured(changed)).set_index("rnn")
    assert alone.loc["block", "curve_judged_by"] == "nothing"


def test_a_companion_only_serves_ratios():
    first, late, again = make_late(acc=0.9)
    worse = tuple(replace(epoch, val_acc=0.1, loss=9.0) for epoch in again.epochs)
    every = [first, late, replace(again, epochs=worse)]
    curve = curves(tidy(every), "val_acc").set_index(["rnn", "epoch"]).loc[("keras", 5)]
    assert (curve["low"], curve["high"]) == (0.9, 0.9)
    row = learning(measured(every)).set_index("rnn").loc["block"]
    assert (row["val_acc_difference"], row["loss_largest"]) == (0, 0)


def test_time_to_target_is_that_of_the_turns():
    """A run that trained in turns has its seconds from its round, not from its own epochs."""
    members = [make_record(acc=0.9), make_record(rnn="block", acc=0.9)]
    frame = tidy(in_round(members, [0.2, -0.2]))
    seconds = run_values(frame).set_index("rnn")["seconds"]
    reached = target(frame).set_index("rnn")
    assert seconds["keras"] / seconds["block"] == pytest.approx(math.exp(0.4), rel=1e-3)
    for rnn in ("keras", "block"):
        assert reached.loc[rnn, "seconds"] == pytest.approx(5 * seconds[rnn])


def test_time_to_target_by_hand():
    # Accuracy grows as 0.6, 0.7, 0.8, 0.9, 1.0 of `acc`: the lowest best is 0.9, 99 % of it 0.891.
    frame = tidy([make_record(acc=0.9, epoch_seconds=2.0), make_record(rnn="cell", acc=1.0)])
    keras, other = target(frame).to_dict("records")
    assert keras["target"] == pytest.approx(0.891) and keras["seconds"] == pytest.approx(10)
    assert other["seconds"] == pytest.approx(2.0) and other["epochs"] == 4
    assert (keras["reached"], other["reached"]) == (1, 1)
    assert curves(frame, "val_acc")["elapsed"].iloc[1] == pytest.approx(4)
