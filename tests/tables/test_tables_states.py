"""Cycles in which the machine was slowed from outside are recognized, and ratios are those of the
undisturbed machine."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rnnbench.tables.states import SATURATED, SLOWED, UNEQUAL, Round, Source, covariance, slowness
from rnnbench.tables.stats import student_quantile
from rnnworker.processors import KNOWN

MEMBERS = ("keras", "block", "cell")
PROCESSOR, BYTES = next(iter(KNOWN))
SOURCES = [Source("here", PROCESSOR, BYTES, "current", "cpu_1")] * 3
TRUE = np.log([0.003, 0.002, 0.003])


def logs(cycles: int, noise: float, seed: int, states: np.ndarray | None = None) -> np.ndarray:
    """Log seconds per step of the members; `states`: log slowness of each cycle, by which keras is
    slowed one and a half times as much as block."""
    random = np.random.default_rng(seed)
    slow = np.zeros(cycles) if states is None else states
    unequal = np.array([1.25, 0.75, 1.0])[:, None]
    return TRUE[:, None] + unequal * slow + random.normal(0, noise, (3, cycles))


def rounds(own: list[np.ndarray], reads: list[np.ndarray] | None = None) -> list[Round]:
    """Rounds with these logs; without `reads`, in records from before these were known."""
    reads = reads or [np.full(each.shape, np.nan) for each in own]
    return [Round(MEMBERS, SOURCES, *each) for each in zip(own, reads, strict=True)]


def slowed_cycles(*arguments) -> list[set[int]]:
    found = slowness(rounds(*arguments))
    return [set(np.flatnonzero(each.machine > math.log(SLOWED))) for each in found]


@pytest.mark.parametrize("noise", [0.01, 0.03, 0.1, 0.15])
@pytest.mark.parametrize("count", [1, 4])
def test_a_quiet_machine_has_no_slowed_cycles(noise, count):
    own = [logs(40, noise, seed) for seed in range(count)]
    found = slowed_cycles(own)
    assert sum(map(len, found)) <= 0.02 * 40 * count


@pytest.mark.parametrize("noise", [0.01, 0.03, 0.1])
def test_a_state_of_some_seconds_is_recognized(noise):
    states = np.repeat([0.0, math.log(1.4), 0.0], 15)
    (found,) = slowed_cycles([logs(45, noise, 0, states)])
    expected = set(range(15, 30))
    assert len(expected ^ found) <= 4  # at its ends


def test_a_round_that_was_slowed_throughout_is_known_by_the_steps_of_the_others():
    slow = np.full(30, math.log(1.3))
    own = [logs(30, 0.03, 0), logs(30, 0.03, 1, slow), logs(30, 0.03, 2)]
    for some in (own, own[:2]):
        assert [len(cycles) for cycles in slowed_cycles(some)] == [0, 30, 0][: len(some)]
    assert np.exp(np.median(slowness(rounds(own))[1].machine)) == pytest.approx(1.3, abs=0.08)


def test_a_cycle_without_turns_is_not_slowed():
    own = logs(30, 0.03, 0)
    own[:, 10:] = np.nan
    own[0] = np.nan
    (found,), (slow,) = slowed_cycles([own]), slowness(rounds([own]))
    assert not found and np.isnan(slow.machine[15]) and not np.isnan(slow.machine[:10]).any()


def reads(cycles: int, slow: float, seconds: float) -> np.ndarray:
    """Log seconds of the random reads of the members, `slow` times as long as `seconds`."""
    return np.log(seconds * slow) + np.random.default_rng(0).normal(0, 0.02, (3, cycles))


@pytest.mark.parametrize(
    ("seconds", "slower", "cycles"),
    [
        (1.0, (1.7, 1.7), [30, 30]),  # known although the whole session was slowed down
        (1.0, (1.0, 1.0), [0, 0]),
        (3.3, (1.0, 1.7), [0, 30]),  # another NumPy or processor has a level of its own
        (0.6, (1.0, 1.7), [0, 30]),
    ],
)
def test_the_reads_of_the_processor_show_slowed_rounds(seconds, slower, cycles):
    own = [logs(30, 0.03, 0), logs(30, 0.03, 1)]
    durations = [reads(30, slow, seconds * KNOWN[PROCESSOR, BYTES]) for slow in slower]
    assert [len(found) for found in slowed_cycles(own, durations)] == cycles


def test_effects_are_taken_to_the_undisturbed_machine():
    """A hundred rounds, of which the slopes are known well."""
    random = np.random.default_rng(0)
    slow, slopes = random.uniform(0, 0.2, 100), np.array([0.5, -0.5, 0.0])[:, None]
    true = np.array([0.3, -0.2, -0.1])
    measured = true[:, None] + slopes * slow + random.normal(0, 0.02, (3, 100))
    effects, widening = covariance(measured, slow)
    assert effects.mean(axis=1) == pytest.approx(true, abs=0.01)
    assert measured.mean(axis=1) != pytest.approx(true, abs=0.03) and 1 < widening < 2.5


@pytest.mark.parametrize(
    ("measured", "slow"),
    [
        (np.random.default_rng(0).normal(0, 0.01, (3, 5)), np.full(5, 0.001)),  # a quiet machine
        (np.ones((1, 5)), np.full(5, 0.3)),
        (np.ones((3, 1)), np.full(1, 0.3)),
        (np.ones((0, 0)), np.ones(0)),
    ],
)
def test_a_quiet_machine_and_one_round_or_member_are_left_as_they_are(measured, slow):
    effects, widening = covariance(measured, slow)
    assert effects == pytest.approx(measured) and widening == pytest.approx(1, abs=0.01)


def test_rounds_that_were_slowed_alike_say_nothing_about_slopes_and_intervals_become_wider():
    measured = np.random.default_rng(0).normal(0, 0.02, (3, 5))
    effects, widening = covariance(measured, np.full(5, 0.3))
    assert effects == pytest.approx(measured)
    deviations = measured - measured.mean(axis=0)
    deviations = deviations - deviations.mean(axis=1, keepdims=True)
    variance = (deviations**2).sum() / 8
    assert (widening**2 - 1) * variance / 5 == pytest.approx((SATURATED * UNEQUAL) ** 2)


def test_equal_effects_stay_equal():
    effects, widening = covariance(np.zeros((3, 4)), np.array([0.0, 0.1, 0.2, 0.3]))
    assert not effects.any() and math.isfinite(widening)


@pytest.mark.parametrize("rounds", [3, 4, 6, 10])
@pytest.mark.parametrize("unequal", [0.0, UNEQUAL])
def test_intervals_cover_the_ratio_of_the_undisturbed_machine(rounds, unequal):
    """Of two members, with 2 % noise from round to round; slopes as the prior has them, or none."""
    random, hits, tries = np.random.default_rng(0), np.zeros(2), 2000
    quantile = student_quantile(0.95, rounds - 1)
    for _ in range(tries):
        slow = np.minimum(np.abs(random.normal(0, 0.12, rounds)), SATURATED)
        slopes = random.normal(0, unequal, (2, 1))
        measured = slopes * slow + random.normal(0, 0.02, (2, rounds))
        effects, widening = covariance(measured, slow)
        for place, (values, factor) in enumerate(((effects, widening), (measured, 1.0))):
            pairs = values[0] - values[1]
            half = quantile * pairs.std(ddof=1) / math.sqrt(rounds) * factor
            hits[place] += abs(pairs.mean()) <= half
    covered, plain = hits / tries
    assert 0.935 <= covered <= 0.985
    assert (plain < 0.93) == (unequal > 0)
