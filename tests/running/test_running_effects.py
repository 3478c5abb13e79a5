"""The effects of a round's members, from their turns."""

from __future__ import annotations

import math
import random

import pytest

from rnnbench.running import verdict
from rnnbench.running.effects import LEAST_CYCLES, asleep, effects, is_disturbed, turns
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
        ratio = result[name][0] - result["keras"][0]
        assert ratio == pytest.approx(true[name], abs=0.02)
        assert result[name][1] == 40


def test_two_members_differ_by_the_median_of_their_cycles() -> None:
    a = {cycle: 0.01 * (1 + cycle) for cycle in range(9)}
    b = {cycle: value * (2 if cycle != 3 else 50) for cycle, value in a.items()}
    result = effects({"a": columns(a), "b": columns(b)})
    assert result["b"][0] - result["a"][0] == pytest.approx(math.log(2))


def test_turns_may_have_different_numbers_of_steps() -> None:
    same = dict.fromkeys(range(9), 0.01)
    result = effects({"a": columns(same, steps=10), "b": columns(same, steps=40)})
    assert result["b"][0] == pytest.approx(result["a"][0])


def test_disturbed_turns_are_excluded_unless_too_few_would_be_left() -> None:
    same = dict.fromkeys(range(12), 0.01)
    odd = {**same, 2: 9.0, 5: 9.0}
    result = effects({"a": columns(same), "b": columns(odd, bad=(2, 5))})
    assert result == {"a": (0.0, 10), "b": (0.0, 10)}  # without b's bad turns, a's have no partner
    few = tuple(range(12 - LEAST_CYCLES + 1))
    result = effects({"a": columns(same), "b": columns(odd, bad=few)})
    assert result == {"a": (0.0, 12), "b": (0.0, 12)}


def test_a_member_with_few_turns_has_no_effect() -> None:
    same = dict.fromkeys(range(12), 0.01)
    few = dict.fromkeys(range(LEAST_CYCLES - 1), 0.01)
    assert set(effects({"a": columns(same), "b": columns(few), "c": columns(same)})) == {"a", "c"}
    assert effects({"a": columns(same), "b": columns(few)}) == {}


def test_a_member_that_ended_early_is_compared_by_its_cycles() -> None:
    long = {cycle: 0.01 * (1 + cycle) for cycle in range(30)}
    short = {cycle: 2 * long[cycle] for cycle in range(10)}
    result = effects({"a": columns(long), "b": columns(short), "c": columns(long)})
    assert result["b"][0] - result["a"][0] == pytest.approx(math.log(2), abs=1e-6)
    assert (result["a"][1], result["b"][1]) == (30, 10)


def test_a_single_member_has_no_effect() -> None:
    assert effects({"a": columns(dict.fromkeys(range(9), 0.01))}) == {}
    assert effects({}) == {}


@pytest.mark.parametrize(
    ("changed", "disturbed"),
    [
        ({}, False),
        ({"foreign": 0.019}, False),
        ({"foreign": 0.021}, True),
        ({"foreign": 0.011, "steal": 0.011}, True),
        ({"seconds": 1.0, "foreign": 0.09}, False),
        ({"seconds": 1.0, "foreign": 0.11}, True),
        ({"foreign": None, "steal": "much"}, False),
    ],
)
def test_a_turn_is_disturbed_only_by_use_of_its_cores(changed, disturbed) -> None:
    turn = {"seconds": 0.035, "steps": 11, "foreign": 0.0, "steal": 0.0}
    assert is_disturbed({**turn, **changed}) is disturbed


def test_the_turns_of_a_record_are_the_given_ones_of_the_training() -> None:
    turn = {"event": "turn", "phase": "train", "start": 5.0, "seconds": 0.035, "steps": 11}
    events = [
        {**turn, "turn": 4, "full": True, "major_faults": 3},
        {**turn, "turn": 6, "full": False, "foreign": 0.5},
        {**turn, "turn": 8, "phase": "evaluate"},
        {**turn, "turn": 9, "seconds": "long"},
        {**turn, "turn": 10, "steps": 0},
        {**turn, "turn": 11, "full": True},
    ]
    given = [{"turn": number, "cycle": number // 2} for number in range(11)]
    assert turns(events, given) == {
        "turn": [4, 6], "cycle": [2, 3], "start": [5.0, 5.0], "seconds": [0.035, 0.035],
        "steps": [11, 11], "full": [True, False], "good": [True, False],
        "major_faults": [3, None],
    }  # fmt: skip
    assert turns([], []) == {name: [] for name in turns(events, given)}


def test_cpu_time_of_a_waiting_member_is_counted() -> None:
    def turn(number: int, asleep: dict[str, float]) -> dict:
        return {"turn": number, "cycle": number // 2, "asleep": asleep}

    def reported(number: int, phase: str = "train") -> dict:
        return {"event": "turn", "phase": phase, "turn": number, "start": 0.0, "seconds": 0.03,
                "steps": 9, "begin": float(number), "t": number + 0.5}  # fmt: skip

    given = {
        "quiet": [turn(0, {"spins": 0.4}), turn(2, {"spins": 0.5}), turn(4, {"spins": 9.0})],
        "spins": [turn(1, {"quiet": 0.0}), turn(3, {"quiet": 0.01})],
    }
    events = {
        "quiet": [reported(0), reported(2), reported(4, "evaluate")],
        "spins": [reported(1), reported(3)],
    }
    result = asleep(given, events)
    assert result["spins"] == {"seconds": 1.0, "cpu_seconds": pytest.approx(0.9)}
    assert result["quiet"] == {"seconds": 1.0, "cpu_seconds": pytest.approx(0.01)}
    for name, codes in (("spins", ["spins"]), ("quiet", [])):
        judged = verdict.judge([], [], {"asleep": result[name]})
        assert [r.code for r in judged.reasons if r.code != "no_epochs"] == codes


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
            logs.append(result["b"][0] - result["a"][0])
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
