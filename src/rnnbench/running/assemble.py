"""Converts a worker's events to the parts of a record. Malformed events and values are omitted. No
side effects."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from rnnbench.records.record import Epoch, Phase

Part = TypeVar("Part", Phase, Epoch)


def phases_of(events: Sequence[Mapping[str, Any]]) -> tuple[Phase, ...]:
    ended = [{**e, "name": e.get("phase")} for e in events if e["event"] == "phase_end"]
    phases = _valid((event for event in ended if {"timed", "details"} <= set(event)), Phase)
    return tuple(replace(phase, details=_details(phase.details)) for phase in phases)


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
    if event.get("seconds") is not None or not _are_numbers(event, ["rim", "took", "steps"]):
        return event
    seconds = event["took"] if step is None else event["rim"] + event["steps"] * step
    return {**event, "seconds": seconds}


def turns_of(events: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The events of the training's turns in which steps were timed."""
    return [
        event
        for event in events
        if event["event"] == "turn"
        and event.get("phase") == "train"
        and _are_numbers(event, ["turn", "start", "seconds", "steps"])
        and min(event["steps"], event["seconds"]) > 0
    ]


def facts_of(events: Sequence[Mapping[str, Any]], topic: str) -> dict[str, Any]:
    """All facts that the worker reported about `topic` (``environment``, ``hardware``,
    ``measured``, …); later ones replace earlier ones."""
    facts: dict[str, Any] = {}
    for event in events:
        if event["event"] == "facts" and isinstance(event.get(topic), Mapping):
            facts.update(
                (name, value)
                for name, value in event[topic].items()
                if value is None or name not in _SHAPES or _SHAPES[name](value)
            )
    return facts


def wall_seconds(events: Sequence[Mapping[str, Any]]) -> float | None:
    """Seconds from the worker's first line of code to its last event, including handshakes but not
    the time that it waited for its turns. None if they are unknown."""
    hello = next((event for event in events if event["event"] == "hello"), {})
    if not _are_numbers(hello, ["begin"]) or not _are_numbers(events[-1], ["t"]):
        return None
    waited = sum(phase.details.get("waited") or 0.0 for phase in phases_of(events))
    return events[-1]["t"] - hello["begin"] - waited


def _details(details: Mapping[str, Any]) -> dict[str, Any]:
    load = details.get("load")
    wrong = set()
    if load is not None and not (isinstance(load, Mapping) and _are_numbers(load, list(load))):
        wrong.add("load")
    if details.get("waited") is not None and not _are_numbers(details, ["waited"]):
        wrong.add("waited")
    return {name: value for name, value in details.items() if name not in wrong}


def _is_kernel(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        value.get(name) is None or _is_list_of(value[name], str) for name in ("found", "expected")
    )


def _is_threads(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("pinned_to", []), list)


def _is_list_of(value: Any, kind: type | tuple[type, ...]) -> bool:
    return isinstance(value, list) and all(isinstance(item, kind) for item in value)


# Facts that the verdict reads. All other facts are recorded as reported.
_SHAPES: Mapping[str, Callable[[Any], bool]] = {
    "kernel": _is_kernel,
    "threads": _is_threads,
    "framework_devices": lambda value: isinstance(value, list),
    "framework_cards": lambda value: isinstance(value, list),
    "card": lambda value: isinstance(value, Mapping),
    "gpus": lambda value: _is_list_of(value, Mapping),  # type: ignore[type-abstract]
}


def _are_numbers(event: Mapping[str, Any], names: Sequence[str]) -> bool:
    return all(
        isinstance(event.get(name), int | float) and not isinstance(event[name], bool)
        for name in names
    )
