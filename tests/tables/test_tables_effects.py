"""The effects of a round's members, from their turns."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.simulated import Machine, Member, simulate
from rnnbench.records.record import Record, disturbed_cycles, run_seconds
from rnnbench.tables.effects import LEAST_CYCLES, SATURATED, effects, effects_of, examined
from rnnbench.tables.states import Source, State, source_of
from rnnworker.processors import BYTES, KNOWN
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


def slowed(turns: dict, first: int, factor: float, reads: float = 1.0) -> dict:
    """Turns that take `factor` times as long from cycle `first` on, and their random reads `reads`
    times as long."""
    late = [cycle >= first for cycle in turns["cycle"]]
    seconds = [
        own * (factor if is_late else 1.0)
        for own, is_late in zip(turns["seconds"], late, strict=True)
    ]
    known = [READS * (reads if is_late else 1.0) for is_late in late]
    return {**turns, "seconds": seconds, "reads": known}


(PROCESSOR, SIZE), READS = next(iter(KNOWN.items()))


def a_round(first: int, keras: float, block: float, reads: float, cycles: int = 30) -> list[Record]:
    """block takes 2/3 of the seconds of keras; from cycle `first` on, their steps and reads take so
    many times as long."""
    pair = in_round([make_record(rnn=rnn) for rnn in ("keras", "block")],
                    [0.0, math.log(2 / 3)], cycles)  # fmt: skip
    return [
        replace(
            record,
            hardware={**record.hardware, "processor": PROCESSOR},
            facts={**record.facts, "reads_bytes": SIZE},
            turns=slowed(record.turns, first, factor, reads),
        )
        for record, factor in zip(pair, (keras, block), strict=True)
    ]


@pytest.mark.parametrize(
    ("first", "keras", "block", "reads", "state", "speedup"),
    [
        (30, 1.0, 1.0, 1.0, State.QUIET, 1.5),
        (20, 1.5, 1.2, 1.0, State.QUIET, 1.5),  # only the steps show it
        (14, 1.5, 1.2, 1.0, State.QUIET, 1.5),  # in more than half of the cycles
        (20, 1.5, 1.2, 1.7, State.PARTLY_SLOWED, 1.5),
        (26, 1.5, 1.2, 1.7, State.QUIET, 1.5),  # in few cycles
        (20, 1.0, 1.0, 1.7, State.PARTLY_SLOWED, 1.5),
        (0, 1.5, 1.2, 1.7, State.SLOWED, 1.875),  # all cycles: known by the reads
        (0, 1.5, 1.2, 1.0, State.QUIET, 1.875),  # and unknown without
        (5, 1.5, 1.2, 1.7, State.SLOWED, 1.875),  # too few others
    ],
)
def test_slowed_cycles_do_not_count_where_enough_others_remain(
    first, keras, block, reads, state, speedup
) -> None:
    records = a_round(first, keras, block, reads)
    one, other = (effects_of(records)[record.key] for record in records)
    assert {one.state, other.state} == {state}
    assert math.exp(one.log - other.log) == pytest.approx(speedup)
    assert (one.slowness > math.log(1.07)) == (state == State.SLOWED)


def test_the_level_of_another_round_plays_no_part() -> None:
    """A round that is slower throughout than another one, by its steps only, is not slowed."""
    both = [*a_round(30, 1.0, 1.0, 1.0), *a_round(0, 1.3, 1.3, 1.0)]
    later = [replace(record, started="20261122T075000_123456Z") for record in both[2:]]
    later = in_round(later, [0.1, 0.2], 30, number=1)
    assert {effect.state for effect in effects_of([*both[:2], *later]).values()} == {State.QUIET}


@pytest.mark.parametrize(
    ("factor", "lowest", "state"),
    [
        (1.7, None, State.SLOWED),  # known although the whole session was slowed down
        (3.3, None, State.QUIET),  # another NumPy or processor has a level of its own
        (3.3, 2.0, State.SLOWED),  # which other rounds tell
        (0.6, None, State.QUIET),
        (0.6, 0.4, State.SLOWED),
    ],
)
def test_a_round_that_was_slowed_throughout_is_known_by_the_processor_or_other_rounds(
    factor, lowest, state
) -> None:
    records = a_round(0, 1.0, 1.0, factor)
    levels = {} if lowest is None else {source_of(records[0]): math.log(READS * lowest)}
    (own,) = examined(records, levels)
    assert own.state == state


@pytest.mark.parametrize("noise", [0.01, 0.03, 0.1])
def test_a_quiet_machine_has_hardly_any_slowed_cycles(noise) -> None:
    machine = Machine(noise=noise)
    found = [
        examined(simulate(np.random.default_rng(seed), machine, TIMES, 1).records)[0]
        for seed in range(20)
    ]
    assert sum(own.slowed.sum() for own in found) <= 0.03 * sum(own.seen.sum() for own in found)
    assert {own.state for own in found} == {State.QUIET}


def test_a_cycle_without_turns_is_not_slowed() -> None:
    records = a_round(20, 1.5, 1.2, 1.7)
    short = [
        replace(record, turns={name: column[:10] for name, column in record.turns.items()})
        for record in records
    ]
    (own,) = examined([records[0], short[1]])
    assert own.seen.all() and own.slowed[:15].sum() == 0
    (own,) = examined(short)
    assert own.seen.sum() == 10 and not own.slowed.any()


def test_a_round_in_which_other_processes_used_most_cycles_is_slowed() -> None:
    machine = Machine(level=0.0, drift=0.0)
    records = simulate(np.random.default_rng(0), machine, TIMES, 5).records
    assert {effect.state for effect in effects_of(records).values()} == {State.QUIET}
    for record in records:
        took, cores = record.turns["took"], record.turns["cores"]
        record.turns["others"] = [0.25 * t * c for t, c in zip(took, cores, strict=True)]
    beside = effects_of(records).values()
    assert {(effect.state, effect.slowness) for effect in beside} == {(State.SLOWED, SATURATED)}


def test_seconds_are_those_of_the_cycles_that_count_and_ratios_those_of_the_turns() -> None:
    """The epochs contain slowed cycles, which last half as long again in a third of the round."""
    records = a_round(20, 1.5, 1.5, 1.7)
    logs = [effects_of(records)[record.key].log for record in records]
    seconds = run_seconds([epoch.seconds for epoch in records[0].epochs])
    shorter = (20 * 1.0 + 10 * 1.5) / 30
    middle = math.log(seconds / shorter)  # of equal epochs
    assert np.mean(logs) == pytest.approx(middle, abs=0.01)
    assert logs[0] - logs[1] == pytest.approx(math.log(1.5))


def test_too_few_turns_have_no_effect() -> None:
    assert effects_of(a_round(0, 1.0, 1.0, 1.7, LEAST_CYCLES - 1)) == {}
    assert len(effects_of(a_round(0, 1.0, 1.0, 1.7, LEAST_CYCLES))) == 2


def test_reads_of_another_kind_have_a_level_of_their_own() -> None:
    """The duration depends on their size, the machine, the build and the device."""
    record = make_record(environment={"numpy": "2.3.5"}, hardware={"processor": PROCESSOR})
    record = replace(record, facts={"reads_bytes": SIZE})
    assert source_of(record) == Source("testbox-0123abcd", PROCESSOR, SIZE, "current", "cpu_1")
    for numpy, is_known in (("1.25.2", False), ("1.26.0", True), ("2.0.0rc1", True), (None, False)):
        found = source_of(replace(record, environment={"numpy": numpy})).processor
        assert found == (PROCESSOR if is_known else "")
    assert source_of(replace(record, facts={})).reads_bytes == BYTES
