"""Cycles in which the machine was slowed from outside are recognized, and ratios are those of the
undisturbed machine."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rnnbench.tables.states import slowed_cycles, slowness

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
