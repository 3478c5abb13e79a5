from __future__ import annotations

import pytest

from rnnbench.records.record import Epoch, Phase
from rnnbench.running.assemble import epochs_of, facts_of, phases_of

PHASE = {
    "event": "phase_end",
    "t": 5.0,
    "phase": "train",
    "start": 1.0,
    "end": 4.0,
    "timed": True,
    "details": {"load": {"own": 3.0}},
}
EPOCH = {"event": "epoch", "t": 2.0, "epoch": 1, "start": 1.0, "seconds": 0.5}
EPOCH |= {"samples": 100, "steps": 4, "loss": 0.7, "val_acc": 0.9, "val_seconds": 0.1}


def without(event: dict, name: str) -> dict:
    return {key: value for key, value in event.items() if key != name}


def test_phases_are_made_from_their_end_events_in_order() -> None:
    second = {**PHASE, "phase": "predict", "timed": False}
    begin = {"event": "phase_begin", "phase": "train", "timed": True}
    assert phases_of([begin, PHASE, EPOCH, second]) == (
        Phase("train", 1.0, 4.0, True, {"load": {"own": 3.0}}),
        Phase("predict", 1.0, 4.0, False, {"load": {"own": 3.0}}),
    )


@pytest.mark.parametrize("name", ["phase", "start", "end", "timed", "details"])
def test_a_phase_with_a_missing_field_is_left_out(name: str) -> None:
    assert phases_of([without(PHASE, name), PHASE]) == phases_of([PHASE])


@pytest.mark.parametrize(
    "change",
    [{"start": "soon"}, {"end": None}, {"details": None}, {"details": [1]}, {"phase": 7}]
    + [{"timed": "yes"}, {"start": True}],
)
def test_a_phase_with_a_value_of_a_wrong_type_is_left_out(change: dict) -> None:
    assert phases_of([{**PHASE, **change}, PHASE]) == phases_of([PHASE])


def test_epochs_keep_only_their_known_fields() -> None:
    assert epochs_of([PHASE, {**EPOCH, "extra": 1}]) == (
        Epoch(1, 1.0, 0.5, 100, 4, loss=0.7, val_acc=0.9, val_seconds=0.1),
    )


def test_an_epoch_whose_loss_is_none_is_kept() -> None:
    (epoch,) = epochs_of([{**EPOCH, "loss": None}])
    assert epoch.loss is None


@pytest.mark.parametrize("name", ["epoch", "start", "seconds", "samples", "steps"])
@pytest.mark.parametrize("value", [None, "much"])
def test_an_epoch_without_a_required_field_is_left_out(name: str, value: object) -> None:
    assert epochs_of([without(EPOCH, name), {**EPOCH, name: value}, EPOCH]) == epochs_of([EPOCH])


def test_an_epoch_whose_loss_is_not_a_number_is_left_out() -> None:
    assert epochs_of([{**EPOCH, "loss": "small"}]) == ()


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
