"""Cycles in which the machine was slowed from outside are recognized, and ratios are those of the
undisturbed machine."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rnnbench.tables.states import KNOWN, Source, slowed_cycles, slowness, unequal

MEMBERS = ("keras", "block", "cell")
TRUE = np.log([0.003, 0.002, 0.003])


def logs(cycles: int, noise: float, seed: int, states: np.ndarray | None = None) -> np.ndarray:
    """Log seconds per step of the members; `states`: log slowness of each cycle, by which keras is
    slowed one and a half times as much as block."""
    random = np.random.default_rng(seed)
    slow = np.zeros(cycles) if states is None else states
    unequal = np.array([1.25, 0.75, 1.0])[:, None]
    return TRUE[:, None] + unequal * slow + random.normal(0, noise, (3, cycles))


def names(rounds: int) -> list[tuple[str, ...]]:
    return [MEMBERS] * rounds


@pytest.mark.parametrize("noise", [0.01, 0.03, 0.1, 0.15])
@pytest.mark.parametrize("rounds", [1, 4])
def test_a_quiet_machine_has_no_slowed_cycles(noise, rounds):
    own = [logs(40, noise, seed) for seed in range(rounds)]
    found = slowed_cycles(own, names(rounds))
    assert sum(map(len, found)) <= 0.02 * 40 * rounds


@pytest.mark.parametrize("noise", [0.01, 0.03, 0.1])
def test_a_state_of_some_seconds_is_recognized(noise):
    states = np.repeat([0.0, math.log(1.4), 0.0], 15)
    (found,) = slowed_cycles([logs(45, noise, 0, states)], names(1))
    expected = set(range(15, 30))
    assert len(expected ^ found) <= 4  # at its ends


def test_a_round_that_was_slowed_throughout_is_known_by_the_others():
    slow = np.full(30, math.log(1.3))
    own = [logs(30, 0.03, 0), logs(30, 0.03, 1, slow), logs(30, 0.03, 2)]
    found = slowed_cycles(own, names(3))
    assert [len(cycles) for cycles in found] == [0, 30, 0]
    assert np.exp(np.median(slowness(own, names(3))[1])) == pytest.approx(1.3, abs=0.08)


def test_a_cycle_without_turns_is_not_slowed():
    own = logs(30, 0.03, 0)
    own[:, 10:] = np.nan
    own[0] = np.nan
    (found,), (slow,) = slowed_cycles([own], names(1)), slowness([own], names(1))
    assert found == frozenset() and np.isnan(slow[15]) and not np.isnan(slow[:10]).any()


PROCESSOR = next(iter(KNOWN))
SOURCES = [Source("here", PROCESSOR, "current", "cpu_1")] * 3


def products(cycles: int, slow: float, seconds: float = KNOWN[PROCESSOR]) -> np.ndarray:
    """Log seconds of the fixed product of the members, `slow` times as long as `seconds`."""
    return np.log(seconds * slow) + np.random.default_rng(0).normal(0, 0.02, (3, cycles))


def test_a_session_that_was_slowed_throughout_is_known_by_the_product_of_the_processor():
    own = [logs(30, 0.03, 0), logs(30, 0.03, 1)]
    slow = [products(30, 1.3)] * 2
    found = slowed_cycles(own, names(2), slow, [SOURCES] * 2)
    assert [len(cycles) for cycles in found] == [30, 30]
    quiet = slowed_cycles(own, names(2), [products(30, 1.0)] * 2, [SOURCES] * 2)
    assert [len(cycles) for cycles in quiet] == [0, 0]


@pytest.mark.parametrize("seconds", [3.3 * KNOWN[PROCESSOR], 0.6 * KNOWN[PROCESSOR]])
def test_the_product_of_another_blas_or_processor_has_a_level_of_its_own(seconds):
    own = [logs(30, 0.03, 0), logs(30, 0.03, 1)]
    durations = [products(30, 1.0, seconds), products(30, 1.3, seconds)]
    found = slowed_cycles(own, names(2), durations, [SOURCES] * 2)
    assert [len(cycles) for cycles in found] == [0, 30]


def test_rounds_without_products_are_judged_by_their_steps():
    own = [logs(30, 0.03, 0), logs(30, 0.03, 1, np.full(30, math.log(1.3)))]
    nothing = [np.full((3, 30), np.nan)] * 2
    found = slowed_cycles(own, names(2), nothing, [SOURCES] * 2)
    assert found == slowed_cycles(own, names(2)) and len(found[1]) == 30


def process_level(own: list[np.ndarray], spread: float) -> list[np.ndarray]:
    """The rounds `own` with an effect of each process."""
    random = np.random.default_rng(9)
    return [rows + random.normal(0, spread, (3, 1)) for rows in own]


def test_slowed_cycles_count_if_all_members_are_slowed_equally():
    slow = math.log(1.3)
    own = [logs(30, 0.03, seed) + slow * (seed % 2) for seed in range(6)]
    found = slowed_cycles(own, names(6))
    assert [len(cycles) for cycles in found] == [0, 30] * 3
    assert not unequal(process_level(own, 0.005), found)


def test_slowed_cycles_do_not_count_if_ratios_differ_in_them():
    own = [logs(30, 0.03, seed, np.full(30, 0.26 * (seed % 2))) for seed in range(6)]
    found = slowed_cycles(own, names(6))
    assert unequal(process_level(own, 0.005), found)


def test_slowed_cycles_do_not_count_if_ratios_vary_more_in_them():
    states = [0.0, 0.2, 0.0, 0.4, 0.0, 0.0]
    own = [logs(30, 0.03, seed, np.full(30, slow)) for seed, slow in enumerate(states)]
    assert unequal(process_level(own, 0.005), slowed_cycles(own, names(6)))


def test_it_is_unknown_from_less_than_two_undisturbed_rounds_and_they_do_not_count():
    own = [logs(30, 0.03, seed) + 0.26 * (seed > 0) for seed in range(3)]
    found = slowed_cycles(own, names(3))
    assert [len(cycles) for cycles in found] == [0, 30, 30] and unequal(own, found)
    assert not unequal(own[:1], found[:1])
