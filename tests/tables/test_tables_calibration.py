"""Small versions of `benchmarks/calibration.py`: on simulated machines, ratios are unbiased,
intervals have their nominal coverage, and sentences are seldom wrong and agree with their tables.

The simulations are seeded, so they only fail after a change of the code. Each fails if the
estimator is biased (as Tukey's median polish with three members is), if intervals are 30 % too
narrow, or if a sentence ranks by another number than its table shows.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from benchmarks import epoch_position
from benchmarks import judging as j
from benchmarks.calibration import judged_accuracies, judged_experiments
from benchmarks.same_number import NAMES, differing_numbers, random_grids
from benchmarks.simulated import Machine

ALL_OF_IT = pytest.mark.slow_tier("a long simulation")


@pytest.mark.parametrize(
    ("tries", "shrinkage", "low", "high"),
    [
        ({3: 25}, 0.03, 0.9, 0.99),
        pytest.param({2: 60, 3: 80, 5: 40}, 0.01, 0.93, 0.97, marks=ALL_OF_IT),
    ],
)
def test_ratios_are_not_shrunk_and_intervals_cover_the_truth(tries, shrinkage, low, high):
    """The rows of time tables, for equal members and members far apart. In the long form, 380
    intervals find a coverage of 90 % in 97 of 100 simulations."""
    tallies = [
        judged_experiments(
            np.random.default_rng(members),
            Machine(noise=0.1),
            number,
            members=[members],
            rounds=[8],
            truths=[0.0, 0.2],
            judge=j.judge_rows,
        )[j.ALL_ROWS]
        for members, number in tries.items()
    ]
    assert all(abs(tally.shrinkage) < shrinkage for tally in tallies)
    intervals = sum(tally.intervals for tally in tallies)
    assert low <= sum(tally.covered for tally in tallies) / intervals <= high


@pytest.mark.parametrize(("tries", "wrong"), [(20, 0.1), pytest.param(80, 0.05, marks=ALL_OF_IT)])
def test_sentences_about_equal_members_are_wrong_in_at_most_5_percent_of_the_pages(tries, wrong):
    tallies = judged_experiments(
        np.random.default_rng(0), Machine(), tries, members=[3, 5], rounds=[3, 5], truths=[0.0]
    )
    made = {kind: tallies[kind].made for kind in j.SENTENCE_KINDS}
    assert made[j.NO_DIFFERENCE] >= 0.9 * tries
    assert all(tallies[kind].wrong_share <= wrong for kind in j.SENTENCE_KINDS), tallies


@pytest.mark.parametrize("tries", [15, pytest.param(60, marks=ALL_OF_IT)])
def test_sentences_agree_with_their_tables_although_bursts_change_the_seconds(tries):
    tallies = judged_experiments(
        np.random.default_rng(1), Machine(bursts=0.05), tries, members=[2, 3, 4], rounds=[3, 5]
    )
    assert all(tallies[kind].made for kind in j.SENTENCE_KINDS)
    assert [tallies[kind].unlike for kind in j.SENTENCE_KINDS] == [0, 0, 0]
    assert all(tallies[kind].wrong_share <= 0.05 for kind in j.SENTENCE_KINDS), tallies


@pytest.mark.parametrize(("seeds", "tries"), [(2, 20), pytest.param(5, 120, marks=ALL_OF_IT)])
def test_equal_accuracies_are_shown_different_on_at_most_5_percent_of_the_pages(seeds, tries):
    tallies = judged_accuracies(np.random.default_rng(seeds), tries, seeds, 5, flips=1.0, shift=0)
    assert tallies[j.MORE_ACCURATE].wrong_share <= 0.05
    assert tallies[j.OUTLIER].wrong_share <= 0.05


@pytest.mark.parametrize(
    "axis", ["rnn", *(pytest.param(axis, marks=ALL_OF_IT) for axis in NAMES if axis != "rnn")]
)
def test_a_ratio_is_the_same_number_everywhere(axis):
    grids = (random_grids(np.random.default_rng(seed), 3) for seed in itertools.count())
    found, places = differing_numbers(*next(each for each in grids if axis in each[1]))
    assert len(places) > 10 and found == []


def test_a_sentence_of_unknown_form_is_an_error():
    with pytest.raises(ValueError, match="unknown form"):
        j.claims("`block` wins.")


def test_a_longer_last_epoch_is_found_and_without_an_effect_none_is_reported() -> None:
    """24 runs of 8 epochs with different levels and 2 % noise; the first and last are longer."""
    logs = np.random.default_rng(0).normal(0, 0.02, (24, 8)) + np.log(range(1, 25))[:, None]
    longer = logs + math.log(1.08) * np.array([1, 0, 0, 0, 0, 0, 0, 1])
    last = epoch_position.effects(np.exp(longer))[-1]
    assert math.expm1(np.mean(last)) == pytest.approx(0.08, abs=0.015)
    text, without = (epoch_position.table(np.exp(each)) for each in (longer, logs))
    lines = text.splitlines()
    assert lines[2].startswith("| 1 | +") and lines[2].endswith("apart from 0 (does not count) |")
    assert lines[9].startswith("| 8 | +") and lines[9].endswith("apart from 0 |")
    assert without.count("apart from 0") <= 1  # of eight 95 % intervals
    p, p_without = (float(each.rpartition("p = ")[2].strip(". \n")) for each in (text, without))
    assert p < 0.001 and p_without > 0.05


def test_effects_by_hand() -> None:
    found = epoch_position.effects([[1.0, math.e, math.e**2]])
    assert [effect for (effect,) in found] == pytest.approx([-1.5, -1.0, 1.0])
    assert "one run" in epoch_position.table([[1.0, 2.0, 4.0]])
