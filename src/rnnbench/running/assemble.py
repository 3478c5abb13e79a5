"""Converts a worker's events to the parts of a record. Malformed events and values are omitted. No
side effects."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, TypeVar

import msgspec

from rnnbench.records import bounds
from rnnbench.records.record import Epoch, Phase

Part = TypeVar("Part", Phase, Epoch)


def phases_of(events: Sequence[Mapping[str, Any]]) -> tuple[Phase, ...]:
    ended = [
        {**event, "name": event.get("phase"), "details": bounds.fitting(details, bounds.DETAILS)}
        for event in events
        if event["event"] == "phase_end" and "timed" in event
        for details in [event.get("details")]
        if isinstance(details, Mapping)
    ]
    return tuple(_valid(ended, Phase))


def epochs_of(events: Sequence[Mapping[str, Any]]) -> tuple[Epoch, ...]:
    """The epochs. An epoch with too few timed steps to know its seconds gets them from the median
    step of the run's turns."""
    reported = [event for event in events if event["event"] == "epoch"]
    steps = [turn["seconds"] / turn["steps"] for turn in turns_of(events)]
    step = statistics.median(steps) if steps else None
    return tuple(_valid((_with_seconds(event, step) for event in reported), Epoch))


def _valid(events: Iterable[Mapping[str, Any]], kind: type[Part]) -> Iterator[Part]:
    """The parts of a record that the well-formed ones of `events` describe."""
    fields = kind.__struct_fields__
    for event in events:
        with suppress(msgspec.ValidationError):
            yield msgspec.convert({name: event[name] for name in fields if name in event}, kind)


def _with_seconds(event: Mapping[str, Any], step: float | None) -> Mapping[str, Any]:
    numbers = [event.get(name) for name in ("rim", "took", "steps")]
    if event.get("seconds") is not None or not _is(numbers, list[float]):
        return event
    seconds = event["took"] if step is None else event["rim"] + event["steps"] * step
    return {**event, "seconds": seconds}


def turns_of(events: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The events of the training's turns in which steps were timed."""
    return [event for event in events if _is(event, Turn)]


def facts_of(events: Sequence[Mapping[str, Any]], topic: str) -> dict[str, Any]:
    """All facts that the worker reported about `topic` (``environment``, ``hardware``,
    ``measured``, …); later ones replace earlier ones."""
    facts: dict[str, Any] = {}
    for event in events:
        if event["event"] == "facts" and isinstance(event.get(topic), Mapping):
            facts |= bounds.fitting(event[topic], _FACTS)
    return facts


class Threads(msgspec.Struct):
    pinned_to: list[Any] = []


class Turn(msgspec.Struct):
    """An event ``turn`` of the training in which steps were timed."""

    event: Literal["turn"]
    phase: Literal["train"]
    turn: bounds.Index
    start: bounds.Moment
    seconds: bounds.Duration
    steps: bounds.Positive


# Facts that the verdict or the tables read. All other facts are recorded as reported.
_FACTS = {
    **bounds.MEASURED, "threads": Threads, "framework_devices": list, "framework_cards": list,
    "gpus": list[dict],
}  # fmt: skip


def _is(value: Any, kind: Any) -> bool:
    with suppress(msgspec.ValidationError):
        msgspec.convert(value, kind)
        return True
    return False
