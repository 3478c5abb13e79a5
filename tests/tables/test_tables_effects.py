"""The effects of a round's members, from their turns."""

from __future__ import annotations

import math
import random
import statistics

import numpy as np
import pytest

from benchmarks import simulated
from benchmarks.simulated import Machine, Member, simulate
from rnnbench.records.record import disturbed_cycles
from rnnbench.tables.effects import LEAST_CYCLES, effects, effects_of
from rnnbench.tables.stats import difference_interval


def columns(seconds: dict[int, float], steps: int = 10, bad: tuple[int, ...] = ()) -> dict:
    """A member's turns: cycle → seconds per step."""
    return {
        "cycle": list(seconds),
        "seconds": [steps * each for each in seconds.values()],
        "steps": [steps] * len(seconds),
        "full": [True] * len(seconds),
        "good": [cycle not in bad for cycle in seconds],
    }


def drifting(effect: dict[str, float], cycles: int = 40, noise: float = 0.02, seed: int = 0):
    """Members that meet the same conditions: the machine drifts by half and stalls sometimes."""
    stream = random.Random(seed)
    machine = [1 + 0.5 * math.sin(cycle / 6) for cycle in range(cycles)]
    return {
        name: columns(
            {
                cycle: 0.01
                * math.exp(own + stream.gauss(0, noise))
                * machine[cycle]
                * (5 if stream.random() < 0.05 else 1)
                for cycle in range(cycles)
            }
        )
        for name, own in effect.items()
    }


@pytest.mark.parametrize("seed", range(5))
def test_drift_and_bursts_of_the_machine_cancel_out(seed: int) -> None:
    true = {"keras": 0.0, "cell": 0.01, "unrolled": -0.5, "block": -0.6}
    result = effects(drifting(true, seed=seed))
    for name in true:
        ratio = result[name] - result["keras"]
        assert ratio == pytest.approx(true[name], abs=0.02)


def test_two_members_differ_by_the_median_of_their_cycles() -> None:
    a = {cycle: 0.01 * (1 + cycle) for cycle in range(9)}
    b = {cycle: value * (2 if cycle != 3 else 50) for cycle, value in a.items()}
    result = effects({"a": columns(a), "b": columns(b)})
    assert result["b"] - result["a"] == pytest.approx(math.log(2))


def test_turns_may_have_different_numbers_of_steps() -> None:
    same = dict.fromkeys(range(9), 0.01)
    result = effects({"a": columns(same, steps=10), "b": columns(same, steps=40)})
    assert result["b"] == pytest.approx(result["a"])


def test_disturbed_turns_are_excluded_unless_too_few_would_be_left() -> None:
    same = dict.fromkeys(range(12), 0.01)
    odd = {**same, 2: 9.0, 5: 9.0}
    result = effects({"a": columns(same), "b": columns(odd, bad=(2, 5))})
    assert result == {"a": pytest.approx(0), "b": pytest.approx(0)}
    few = tuple(range(12 - LEAST_CYCLES + 1))
    faster = {**dict.fromkeys(few, 0.02), **{c: 0.01 for c in same if c not in few}}
    result = effects({"a": columns(same), "b": columns(faster, bad=few)})
    assert result["b"] - result["a"] == pytest.approx(math.log(2)), "all cycles count"


def test_a_member_with_few_turns_has_no_effect() -> None:
    same = dict.fromkeys(range(12), 0.01)
    few = dict.fromkeys(range(LEAST_CYCLES - 1), 0.01)
    assert set(effects({"a": columns(same), "b": columns(few), "c": columns(same)})) == {"a", "c"}
    assert effects({"a": columns(same), "b": columns(few)}) == {}


def test_a_member_that_ended_early_is_compared_by_its_cycles() -> None:
    long = {cycle: 0.01 * (1 + cycle) for cycle in range(30)}
    short = {cycle: 2 * long[cycle] for cycle in range(10)}
    result = effects({"a": columns(long), "b": columns(short), "c": columns(long)})
    assert result["b"] - result["a"] == pytest.approx(math.log(2), abs=1e-6)


def test_a_single_member_has_no_effect() -> None:
    assert effects({"a": columns(dict.fromkeys(range(9), 0.01))}) == {}
    assert effects({}) == {}


def with_load(members: int, cores: int, load: float, ticks: random.Random, cycles: int = 200):
    """Members whose turns take 45 and 720 ms in alternation. The kernel counts the CPU time of each
    core in ticks of 10 ms: the time in a turn is that of the ticks that it contains. Other
    processes use the share `load` of each core."""
    result = {}
    for place in range(members):
        seconds = 0.72 if place % 2 else 0.045
        others = []
        for _ in range(cycles):
            counted = sum(
                0.01 * (math.floor((phase + seconds) / 0.01) - math.floor(phase / 0.01)) - seconds
                for phase in (ticks.random() for _ in range(cores))
            )
            others.append(counted + load * cores * seconds)
        result[f"m{place}"] = {
            "cycle": list(range(cycles)),
            "others": others,
            "took": [seconds] * cycles,
            "cores": [cores] * cycles,
        }
    return result


@pytest.mark.parametrize("cores", [1, 2, 8, 64])
@pytest.mark.parametrize("members", [2, 5])
def test_false_alarms_are_rare_with_any_number_of_cores(cores: int, members: int) -> None:
    stream = random.Random(cores)
    assert len(disturbed_cycles(with_load(members, cores, 0.0, stream))) <= 0.05 * 200
    assert len(disturbed_cycles(with_load(members, cores, 0.03, stream))) <= 0.05 * 200
    assert len(disturbed_cycles(with_load(members, cores, 0.3, stream))) >= 0.95 * 200


@pytest.mark.parametrize("busy", [1.0, 0.5])
@pytest.mark.parametrize("step", [0.005, 0.08])
@pytest.mark.parametrize("cores", [1, 2, 64])
def test_false_alarms_do_not_depend_on_the_length_of_steps(
    step: float, cores: int, busy: float
) -> None:
    """Two members with seven timed and two untimed steps in a turn. A core that is busy for half of
    the time is busy at half of the kernel's ticks."""
    stream, seconds, cycles = random.Random(7), 9 * step, 400

    def counted() -> float:
        ticks = math.floor(stream.random() + seconds / 0.01)
        return 0.01 * sum(stream.random() < busy for _ in range(ticks)) - busy * seconds

    members = {
        name: {
            "cycle": list(range(cycles)),
            "took": [seconds] * cycles,
            "cores": [cores] * cycles,
            "others": [sum(counted() for _ in range(cores)) for _ in range(cycles)],
        }
        for name in "ab"
    }
    assert len(disturbed_cycles(members)) <= 0.05 * cycles


def test_a_disturbed_cycle_is_disturbed_for_all_members() -> None:
    quiet = {
        "cycle": [0, 1, 2],
        "others": [0.0, 0.0, None],
        "took": [0.1, 0.1, None],
        "cores": [1, 1, 1],
    }
    busy = {"cycle": [0, 1, 2], "others": [0.0, 0.09, -0.01], "took": [0.1] * 3, "cores": [1] * 3}
    assert disturbed_cycles({"a": quiet, "b": busy}) == {1}
    assert disturbed_cycles({"a": {"cycle": [0, 3], "good": [True, False]}, "b": quiet}) == {3}
    assert disturbed_cycles({"a": {}}) == frozenset()


@pytest.mark.parametrize("count", [2, 3, 4, 5, 7, 14])
@pytest.mark.parametrize("noise", [0.02, 0.1])
def test_effects_are_unbiased_with_any_number_of_members(count: int, noise: float) -> None:
    """One member is 10 % slower than the others, which are equal. A median polish reports a third
    of that with three members."""
    stream, found = random.Random(count), []
    for _ in range(30):
        logs = {f"m{n}": 0.1 * (n == 1) for n in range(count)}
        result = effects(
            {
                name: columns({c: math.exp(own + stream.gauss(0, noise)) for c in range(60)})
                for name, own in logs.items()
            }
        )
        found.append(result["m1"] - result["m0"])
    assert statistics.fmean(found) == pytest.approx(0.1, abs=0.1 * noise + 0.0005)


def test_effects_are_consistent_with_different_cycles() -> None:
    """c is compared with a in other cycles than with b; all ratios are those of one fit."""
    level = {cycle: math.exp(math.sin(cycle)) for cycle in range(60)}
    members = {
        "a": columns({c: level[c] for c in range(40)}),
        "b": columns({c: 2 * level[c] for c in range(20, 60)}),
        "c": columns({c: 6 * level[c] for c in (*range(10), *range(50, 60))}),
    }
    result = effects(members)
    assert result["b"] - result["a"] == pytest.approx(math.log(2))
    assert result["c"] - result["a"] == pytest.approx(math.log(6))
    assert sum(result.values()) == pytest.approx(0)


def test_members_without_common_cycles_are_not_compared() -> None:
    first = {"a": 0, "b": 0, "c": 20, "d": 20, "e": 20}
    members = {
        name: columns(dict.fromkeys(range(start, start + 9), 0.01)) for name, start in first.items()
    }
    assert set(effects(members)) == {"c", "d", "e"}


SERIES = 400


@pytest.mark.parametrize(
    ("rounds", "difference", "least", "most"),
    [(3, 0.0, 0.0, 0.07), (5, 0.0, 0.0, 0.07), (5, 0.02, 0.9, 1.0), (3, 0.1, 0.99, 1.0)],
)
def test_series_of_rounds_show_real_differences_and_few_others(rounds, difference, least, most):
    """Three members, one of which differs. The machine drifts, stalls for some cycles and has
    autocorrelated noise; each process is up to 0.4 % faster or slower during its whole life, as was
    measured (benchmarks/README.md)."""
    stream = random.Random(rounds + 100 * difference)
    shown = 0
    for _ in range(SERIES // 4 if difference else SERIES):
        logs = []
        for _ in range(rounds):
            true = {"a": 0.0, "b": difference, "c": -0.4}
            own = {name: value + stream.gauss(0, 0.004) for name, value in true.items()}
            result = effects(autocorrelated(own, stream))
            logs.append(result["b"] - result["a"])
        interval = difference_interval(logs)
        shown += not interval.low <= 0 <= interval.high
    assert least <= shown / (SERIES // 4 if difference else SERIES) <= most


def autocorrelated(effect: dict[str, float], stream: random.Random, cycles: int = 20) -> dict:
    level, noise, seconds = 0.0, 0.0, {name: {} for name in effect}
    for cycle in range(cycles):
        level += stream.gauss(0, 0.03)
        stalled = stream.random() < 0.1
        for name, own in effect.items():
            noise = 0.5 * noise + stream.gauss(0, 0.015)
            seconds[name][cycle] = math.exp(own + level + noise + (0.3 if stalled else 0.0)) / 100
    return {name: columns(own) for name, own in seconds.items()}


def test_random_reads_tell_which_turns_a_short_state_slowed_down(monkeypatch):
    """Half of the turns are slowed down by up to 1.65; the reads show it, or are not known."""
    times = {Member("keras"): math.log(0.003), Member("block"): math.log(0.002)}
    monkeypatch.setattr(simulated, "CYCLES", (20, 25))
    machine, stream = Machine(flicker=0.5, process=0.0), np.random.default_rng(0)
    errors = {True: [], False: []}
    for _ in range(40):
        records = simulate(stream, machine, times, 1).records
        for has_reads, known in errors.items():
            for record in records if not has_reads else ():
                del record.turns["reads"]
            one, other = (effects_of(records)[record.key].effect for record in records)
            known.append(one - other - math.log(1.5))
    with_reads, without = (np.sqrt(np.mean(np.square(errors[key]))) for key in (True, False))
    assert with_reads < 0.025 and without > 1.8 * with_reads


def test_time_that_other_processes_use_widens_the_intervals() -> None:
    """The intervals of rounds beside a process that uses a quarter of the cores are wider."""
    times = {Member("keras"): math.log(0.003), Member("block"): math.log(0.002)}
    machine = Machine(level=0.0, drift=0.0)
    records = simulate(np.random.default_rng(0), machine, times, 5).records
    alone = effects_of(records)
    for record in records:
        took, cores = record.turns["took"], record.turns["cores"]
        record.turns["others"] = [0.25 * t * c for t, c in zip(took, cores, strict=True)]
    beside = effects_of(records)
    assert not any(effect.slowed for effect in alone.values())
    assert all(effect.slowed for effect in beside.values())
    assert all(beside[key].widening > 2 > alone[key].widening for key in alone)
