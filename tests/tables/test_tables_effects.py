"""The effects of a round's members, from their turns."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import simulated
from benchmarks.simulated import Machine, Member, simulate
from rnnbench.records.record import disturbed_cycles
from rnnbench.tables.effects import LEAST_CYCLES, effects, effects_of, relative_values
from rnnworker.processors import KNOWN
from tests.factory import in_round, make_record, replace


def columns(seconds: dict[int, float], steps: int = 10, bad: tuple[int, ...] = ()) -> dict:
    """A member's turns: cycle → seconds per step."""
    return {
        "cycle": list(seconds),
        "seconds": [steps * each for each in seconds.values()],
        "steps": [steps] * len(seconds),
        "full": [True] * len(seconds),
        "others": [0.09 if cycle in bad else 0.0 for cycle in seconds],
        "took": [0.1] * len(seconds),
        "cores": [1] * len(seconds),
    }


def test_two_members_differ_by_the_median_of_their_cycles() -> None:
    a = {cycle: 0.01 * (1 + cycle) for cycle in range(9)}
    b = {cycle: value * (2 if cycle != 3 else 50) for cycle, value in a.items()}
    result = effects({"a": columns(a), "b": columns(b)})
    assert result["b"] - result["a"] == pytest.approx(math.log(2))


LOGS = st.floats(-2, 2)


@given(
    st.lists(st.tuples(LOGS, st.integers(1, 40), st.sets(st.integers(0, 29), max_size=10)),
             min_size=2, max_size=5),
    st.lists(LOGS, min_size=30, max_size=30),
)  # fmt: skip
def test_without_noise_effects_are_exact_whatever_the_steps_cycles_and_drift(members, drift):
    """`members`: log effect, steps of a turn, and the cycles that the member misses."""
    result = effects(
        {
            str(place): columns(
                {c: math.exp(own + log) for c, log in enumerate(drift) if c not in missing}, steps
            )
            for place, (own, steps, missing) in enumerate(members)
        }
    )
    assert sum(result.values()) == pytest.approx(0, abs=1e-9)
    for place, (own, *_) in enumerate(members):
        assert result[str(place)] - result["0"] == pytest.approx(own - members[0][0], abs=1e-9)


def test_disturbed_turns_are_excluded_unless_too_few_would_be_left() -> None:
    same = dict.fromkeys(range(12), 0.01)
    odd = {**same, 2: 9.0, 5: 9.0}
    result = effects({"a": columns(same), "b": columns(odd, bad=(2, 5))})
    assert result == {"a": pytest.approx(0), "b": pytest.approx(0)}
    few = tuple(range(12 - LEAST_CYCLES + 1))
    faster = {**dict.fromkeys(few, 0.02), **{c: 0.01 for c in same if c not in few}}
    result = effects({"a": columns(same), "b": columns(faster, bad=few)})
    assert result["b"] - result["a"] == pytest.approx(math.log(2)), "all cycles count"


def test_members_with_few_turns_or_without_common_cycles_have_no_effect() -> None:
    same, few, later = (
        columns(dict.fromkeys(cycles, 0.01))
        for cycles in (range(12), range(LEAST_CYCLES - 1), range(20, 29))
    )
    assert set(effects({"a": same, "b": few, "c": same})) == {"a", "c"}
    for alone in ({}, {"a": same}, {"a": same, "b": few}):
        assert effects(alone) == {}
    members = {"a": same, "b": same, "c": later, "d": later, "e": later}
    assert set(effects(members)) == {"c", "d", "e"}


CYCLES = 400
TIMES = {Member("keras"): math.log(0.003), Member("block"): math.log(0.002)}


def watched(seconds: list[float], cores: int, load=0.0, busy=1.0) -> dict[str, dict]:
    """Members whose turns take so many `seconds`. The kernel counts the CPU time of each core in
    ticks of 10 ms: the time in a turn is that of the ticks that it contains; a core that is `busy`
    for half of the time is busy at half of them. Other processes use the share `load` of each
    core."""
    random, members = np.random.default_rng(cores), {}
    for place, duration in enumerate(seconds):
        ticks = np.floor(random.random((CYCLES, cores)) + duration / 0.01).astype(int)
        counted = 0.01 * random.binomial(ticks, busy).sum(axis=1)
        members[f"m{place}"] = {
            "cycle": list(range(CYCLES)),
            "others": (counted + (load - busy) * duration * cores).tolist(),
            "took": [duration] * CYCLES,
            "cores": [cores] * CYCLES,
        }
    return members


@pytest.mark.parametrize("cores", [1, 2, 8, 64])
@pytest.mark.parametrize("turns", [[0.045, 0.72], [0.045, 0.72, 0.045, 0.72, 0.045]])
def test_false_alarms_are_rare_with_any_number_of_cores_and_members(cores, turns) -> None:
    none, little, much = (
        len(disturbed_cycles(watched(turns, cores, load))) for load in (0.0, 0.03, 0.3)
    )
    assert max(none, little) <= 0.05 * CYCLES and much >= 0.95 * CYCLES


@pytest.mark.parametrize("busy", [1.0, 0.5])
@pytest.mark.parametrize("step", [0.005, 0.08])
@pytest.mark.parametrize("cores", [1, 2, 64])
def test_false_alarms_do_not_depend_on_the_length_of_steps(step, cores, busy) -> None:
    """Two members with seven timed and two untimed steps in a turn."""
    members = watched([9 * step] * 2, cores, busy=busy)
    assert len(disturbed_cycles(members)) <= 0.05 * CYCLES


def test_a_disturbed_cycle_is_disturbed_for_all_members() -> None:
    quiet = {"cycle": [0, 1, 2], "others": [0.0, 0.0, None], "cores": [1] * 3}
    quiet["took"] = [0.1, 0.1, None]
    busy = {"cycle": [0, 1, 2], "others": [0.0, 0.09, -0.01], "took": [0.1] * 3, "cores": [1] * 3}
    assert disturbed_cycles({"a": quiet, "b": busy}) == {1}
    assert disturbed_cycles({"a": {}}) == frozenset()


def test_random_reads_tell_which_turns_a_short_state_slowed_down(monkeypatch):
    """Half of the turns are slowed down by up to 1.65; the reads show it, or are not known."""
    monkeypatch.setattr(simulated, "CYCLES", (20, 25))
    machine, stream = Machine(flicker=0.5, process=0.0), np.random.default_rng(0)
    errors = {True: [], False: []}
    for _ in range(40):
        records = simulate(stream, machine, TIMES, 1).records
        for has_reads, known in errors.items():
            for record in records if not has_reads else ():
                del record.turns["reads"]
            one, other = (effects_of(records)[record.key].effect for record in records)
            known.append(one - other - math.log(1.5))
    with_reads, without = (np.sqrt(np.mean(np.square(errors[key]))) for key in (True, False))
    assert with_reads < 0.025 and without > 1.8 * with_reads


def test_time_that_other_processes_use_widens_the_intervals() -> None:
    """The intervals of rounds beside a process that uses a quarter of the cores are wider."""
    machine = Machine(level=0.0, drift=0.0)
    records = simulate(np.random.default_rng(0), machine, TIMES, 5).records
    alone = effects_of(records)
    for record in records:
        took, cores = record.turns["took"], record.turns["cores"]
        record.turns["others"] = [0.25 * t * c for t, c in zip(took, cores, strict=True)]
    beside = effects_of(records)
    assert not any(effect.slowed for effect in alone.values())
    assert all(effect.slowed for effect in beside.values())
    assert all(beside[key].widening > 2 > alone[key].widening for key in alone)


@pytest.mark.parametrize("slower", [1.0, 1.7])
def test_too_few_turns_for_an_effect_still_tell_that_the_machine_was_slowed_down(slower) -> None:
    (processor, size), seconds = next(iter(KNOWN.items()))
    members = [make_record(rnn=rnn) for rnn in ("keras", "block")]
    records = [
        replace(
            record,
            hardware={**record.hardware, "processor": processor},
            measured={**record.measured, "reads_bytes": size},
            turns={**record.turns, "reads": [seconds * slower] * (LEAST_CYCLES - 1)},
        )
        for record in in_round(members, [0.1, -0.1], LEAST_CYCLES - 1)
    ]
    found = effects_of(records)
    assert set(found) == {record.key for record in records}
    assert all(math.isnan(effect.effect) for effect in found.values())
    assert {effect.slowed for effect in found.values()} == {slower > 1}
    assert relative_values(records, found) == relative_values(records, {})
