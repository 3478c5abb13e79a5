"""Events of a worker → the parts of a record. Pure; whatever is malformed is left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rnnbench.records.record import Epoch, Phase

_EPOCH_FIELDS = (
    "epoch",
    "start",
    "seconds",
    "samples",
    "steps",
    "loss",
    "acc",
    "val_loss",
    "val_acc",
    "val_seconds",
)


def phases_of(events: Sequence[Mapping[str, Any]]) -> tuple[Phase, ...]:
    return tuple(
        Phase(
            event["phase"], event["start"], event["end"], event["timed"], _details(event["details"])
        )
        for event in events
        if event["event"] == "phase_end"
        and isinstance(event.get("phase"), str)
        and _are_numbers(event, ("start", "end"))
        and isinstance(event.get("timed"), bool)
        and isinstance(event.get("details"), Mapping)
    )


def epochs_of(events: Sequence[Mapping[str, Any]]) -> tuple[Epoch, ...]:
    return tuple(
        Epoch(**{name: event.get(name) for name in _EPOCH_FIELDS})  # type: ignore[arg-type]
        for event in events
        if event["event"] == "epoch"
        and _are_numbers(event, _EPOCH_FIELDS[:5])
        and _are_numbers(event, [name for name in _EPOCH_FIELDS[5:] if event.get(name) is not None])
    )


def facts_of(events: Sequence[Mapping[str, Any]], topic: str) -> dict[str, Any]:
    """All facts the worker told about `topic` (``environment``, ``hardware``, ``measured``)."""
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
    """From the worker's first line of code to its last event, handshakes included."""
    hello = next((event for event in events if event["event"] == "hello"), {})
    if not _are_numbers(hello, ["begin"]) or not _are_numbers(events[-1], ["t"]):
        return None
    return events[-1]["t"] - hello["begin"]


def _details(details: Mapping[str, Any]) -> dict[str, Any]:
    load = details.get("load")
    if load is None or (isinstance(load, Mapping) and _are_numbers(load, list(load))):
        return dict(details)
    return {name: value for name, value in details.items() if name != "load"}


def _is_kernel(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        value.get(name) is None or _is_list_of(value[name], str) for name in ("found", "expected")
    )


def _is_threads(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("pinned_to", []), list)


def _is_list_of(value: Any, kind: type | tuple[type, ...]) -> bool:
    return isinstance(value, list) and all(isinstance(item, kind) for item in value)


# What the verdict looks into; of anything else the record keeps what was said.
_SHAPES: Mapping[str, Callable[[Any], bool]] = {
    "kernel": _is_kernel,
    "threads": _is_threads,
    "framework_devices": lambda value: isinstance(value, list),
    "gpus": lambda value: _is_list_of(value, Mapping),  # type: ignore[type-abstract]
}


def _are_numbers(event: Mapping[str, Any], names: Sequence[str]) -> bool:
    return all(
        isinstance(event.get(name), int | float) and not isinstance(event[name], bool)
        for name in names
    )
