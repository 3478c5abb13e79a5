"""The turns of a run in its record, and the CPU time of waiting members."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from rnnbench.records.record import Epoch, Phase
from rnnbench.running import verdict
from rnnbench.running.assemble import asleep_in, epochs_of, facts_of, phases_of, turns
from rnnbench.running.worker import Outcome
from tests.factory import measured_of

PHASE = {"event": "phase_end", "t": 5.0, "phase": "train", "start": 1.0, "end": 4.0}
PHASE |= {"timed": True, "details": {"load": {"own": 3.0}}}
EPOCH = {"event": "epoch", "t": 2.0, "epoch": 1, "start": 1.0, "seconds": 0.5}
EPOCH |= {"samples": 100, "steps": 4, "loss": 0.7, "val_acc": 0.9, "val_seconds": 0.1}


def damaged(event: dict[str, Any], name: str, *values: Any) -> list[dict[str, Any]]:
    """The event without the field, and with each of the `values` in it."""
    without = {key: value for key, value in event.items() if key != name}
    return [without, *({**event, name: value} for value in values)]


def test_phases_are_made_from_their_end_events_in_order() -> None:
    second = {**PHASE, "phase": "predict", "timed": False}
    begin = {"event": "phase_begin", "phase": "train", "timed": True}
    assert phases_of([begin, PHASE, EPOCH, second]) == (
        Phase("train", 1.0, 4.0, True, {"load": {"own": 3.0}}),
        Phase("predict", 1.0, 4.0, False, {"load": {"own": 3.0}}),
    )


def test_epochs_keep_only_their_known_fields() -> None:
    expected = Epoch(1, 1.0, 0.5, 100, 4, loss=0.7, val_acc=0.9, val_seconds=0.1)
    assert epochs_of([PHASE, {**EPOCH, "extra": 1}]) == (expected,)
    assert epochs_of([{**EPOCH, "loss": None}]) == (replace(expected, loss=None),)


def test_phases_and_epochs_with_a_missing_or_wrong_value_are_left_out() -> None:
    phases = {"phase": [7], "start": ["soon", True], "end": [None], "timed": ["yes"]}
    for name, values in {**phases, "details": [None, [1]]}.items():
        assert phases_of([*damaged(PHASE, name, *values), PHASE]) == phases_of([PHASE]), name
    for name in ("epoch", "start", "seconds", "samples", "steps"):
        assert epochs_of([*damaged(EPOCH, name, None, "much"), EPOCH]) == epochs_of([EPOCH]), name
    assert epochs_of([{**EPOCH, "loss": "small"}]) == ()


def test_an_epoch_with_too_few_timed_steps_gets_the_median_step_of_the_turns() -> None:
    short = {**EPOCH, "seconds": None, "rim": 0.1, "took": 0.9}
    given = [(0.10, 10), (0.04, 2), (0.90, 10)]  # 10, 20 and 90 ms per step
    steps = [
        {"event": "turn", "phase": "train", "turn": n, "start": 1.0, "seconds": s, "steps": count}
        for n, (s, count) in enumerate(given)
    ]
    (epoch,) = epochs_of([*steps, short])
    assert epoch.seconds == pytest.approx(0.1 + 4 * 0.02) and epoch.took == 0.9
    (epoch,) = epochs_of([short])
    assert epoch.seconds == 0.9, "without turns, all of its steps were its own"
    assert epochs_of([*steps, EPOCH])[0].seconds == 0.5
    for name in ("rim", "took", "steps"):
        assert epochs_of([*steps, *damaged(short, name, None, "much")]) == ()


def test_later_facts_of_a_topic_replace_earlier_ones() -> None:
    events = [
        {"event": "facts", "measured": {"parameters": 1, "threads": {"asked": 2}}},
        {"event": "facts", "environment": {"keras": "3"}},
        {"event": "facts", "measured": {"parameters": 5}},
        {"event": "facts", "measured": "garbage"},
        {"event": "epoch", "measured": {"no": "fact"}},
    ]
    assert facts_of(events, "measured") == {"parameters": 5, "threads": {"asked": 2}}
    assert facts_of(events, "environment") == {"keras": "3"}
    assert facts_of(events, "hardware") == {}


def test_the_turns_of_a_record_are_the_given_ones_of_the_training() -> None:
    turn = {"event": "turn", "phase": "train", "start": 5.0, "seconds": 0.035, "steps": 11}
    cores = {"busy": 0.05, "own": 0.06, "steal": 0.03, "begin": 4.9, "t": 5.0, "cores": 2}
    events = [
        {**turn, **cores, "turn": 4, "full": True},
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
        judged = verdict.judge([], [], measured_of({"asleep": result[name]}))
        assert [r.code for r in judged.reasons if r.code != "no_epochs"] == codes
