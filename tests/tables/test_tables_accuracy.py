"""A difference in accuracy is shown in at most 5 % of the tasks in which there is none."""

from __future__ import annotations

import math

import pytest

from benchmarks.accuracy import has_outlier, is_shown, share
from rnnbench.tables.frame import tidy
from rnnbench.tables.learning import accuracy_interval, learning
from tests.factory import TEST_SAMPLES, make_record, replace

FEW_STEPS = (TEST_SAMPLES, 0.97, 0.02, 0.002, 0)  # differences of 0 to 2 validation samples
FINE = (25000, 0.85, 0.001, 0.01, 0.8)  # 80 % compute the same bits as the reference


def at_most_5_percent(tries):
    return 0.05 + 3 * math.sqrt(0.05 * 0.95 / tries)


@pytest.mark.parametrize(
    ("seeds", "comparisons", "setting"),
    [(3, 13, FEW_STEPS), (3, 7, FINE), (10, 13, FINE[:4] + (0,))],
)
def test_a_difference_that_does_not_exist_is_rarely_shown(seeds, comparisons, setting):
    assert share(is_shown, 400, seeds, comparisons, setting) <= at_most_5_percent(400)


@pytest.mark.parametrize(("seeds", "setting"), [(3, FEW_STEPS), (10, FINE[:4] + (0,))])
def test_student_t_alone_would_show_it_more_often(seeds, setting):
    assert share(is_shown, 400, seeds, 13, setting, before=True) > 0.2


def test_configurations_that_agree_do_not_make_the_others_outliers():
    assert share(has_outlier, 150, 3, 13, FINE) <= at_most_5_percent(150)


def test_a_difference_of_5_points_is_shown_from_five_seeds():
    assert share(is_shown, 200, 5, 13, (2000, 0.9, 0.01, 0.005, 0), gain=-0.05) > 0.9


def test_equal_differences_give_an_interval_of_at_least_one_validation_sample():
    interval = accuracy_interval([0.01] * 3, 100)
    assert interval.high - interval.low == pytest.approx(2 * 4.3026527 * 0.01 / math.sqrt(3))
    assert accuracy_interval([0.01] * 2, 100).low is None
    assert accuracy_interval([0.01] * 3, None).low is None


def test_the_intervals_hold_for_a_group_or_for_all_groups_together():
    records = []
    for cell in ("lstm", "gru"):
        for seed, noise in enumerate((0.0, 0.01, 0.02)):
            for rnn, acc in (("keras", 0.9), ("block", 0.9 + noise), ("cell", 0.9 - noise)):
                record = make_record(rnn=rnn, seed=seed, acc=acc)
                choices = {**record.run.choices, "cell": cell}
                records.append(replace(record, choices=choices, name=f"{cell}-{record.name}"))
    frame, width = tidy(records), {}
    for together in (False, True):
        row = learning(frame, {"rnn": "keras"}, together).set_index("rnn").loc["block"].iloc[0]
        width[together] = row["val_acc_high"] - row["val_acc_low"]
    one, four = (accuracy_interval([0, 0.01, 0.02], 359, count) for count in (2, 4))
    assert width[False] == pytest.approx(one.high - one.low)
    assert width[False] < width[True] == pytest.approx(four.high - four.low)
