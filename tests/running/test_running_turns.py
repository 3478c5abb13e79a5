"""The turns of a run in its record, and the CPU time of waiting members."""

from __future__ import annotations

import pytest

from rnnbench.running import verdict
from rnnbench.running.assemble import asleep_in, turns
from rnnbench.running.worker import Outcome


def test_the_turns_of_a_record_are_the_given_ones_of_the_training() -> None:
    turn = {"event": "turn", "phase": "train", "start": 5.0, "seconds": 0.035, "steps": 11}
    events = [
        {
            **turn,
            "turn": 4,
            "full": True,
            "major_faults": 3,
            "busy": 0.05,
            "own": 0.06,
            "steal": 0.03,
            "begin": 4.9,
            "t": 5.0,
            "cores": 2,
        },
        {**turn, "turn": 6, "full": False, "busy": 0.5},
        {**turn, "turn": 7, "busy": 0.5, "own": "much"},
        {**turn, "turn": 8, "phase": "evaluate"},
        {**turn, "turn": 9, "seconds": "long"},
        {**turn, "turn": 10, "steps": 0},
        {**turn, "turn": 11, "full": True},
    ]
    given = [{"turn": number, "cycle": number // 2} for number in range(11)]
    assert turns(events, given) == {
        "turn": [4, 6], "cycle": [2, 3], "start": [5.0, 5.0], "seconds": [0.035, 0.035],
        "steps": [11, 11], "full": [True, False],
        "others": [pytest.approx(0.02), None], "took": [pytest.approx(0.1), None],
        "cores": [2, None],
        "major_faults": [3, None],
        "reads": [None, None],
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
    outcomes = {name: Outcome(events[name], turns=given[name]) for name in given}
    result = asleep_in(outcomes)
    assert result["spins"] == {"seconds": 1.0, "cpu_seconds": pytest.approx(0.9)}
    assert result["quiet"] == {"seconds": 1.0, "cpu_seconds": pytest.approx(0.01)}
    for name, codes in (("spins", ["spins"]), ("quiet", [])):
        judged = verdict.judge([], [], {"asleep": result[name]})
        assert [r.code for r in judged.reasons if r.code != "no_epochs"] == codes
