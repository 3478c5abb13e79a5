"""Types of the fields of a record, by any writer. No side effects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rnnbench.errors import RecordError
from rnnbench.records import timestamps

Check = Callable[[Any], bool]


def is_path_component(value: Any) -> bool:
    """Whether `value` is a single path component: the name of a file or folder in its parent."""
    return (
        isinstance(value, str)
        and 0 < len(value.encode("utf-8", "replace")) <= 255
        and value not in (".", "..")
        and not any(letter in "/\\" or ord(letter) < 32 for letter in value)
    )


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_timestamp(value: Any) -> bool:
    try:
        timestamps.read(value)
    except RecordError:
        return False
    return True


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_mapping(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_choices(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(item, str) for item in value.values())


def _or_none(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _is_list_of_mappings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def _is_round(value: Any) -> bool:
    return (
        isinstance(value, Mapping)
        and isinstance(value.get("id"), str)
        and isinstance(value.get("members"), list)
        and isinstance(value.get("companion"), bool)
        and (value.get("effect") is None or is_number(value["effect"]))
    )


def _is_columns(value: Any) -> bool:
    return (
        isinstance(value, Mapping)
        and all(isinstance(column, list) for column in value.values())
        and len({len(column) for column in value.values()}) < 2
    )


RECORD: Mapping[str, tuple[Check, str]] = {
    **dict.fromkeys(
        ("name", "machine", "site", "experiment"), (is_path_component, "a path component")
    ),
    **dict.fromkeys(
        ("started", "finished"), (_is_timestamp, "a timestamp such as 20261121T075000_123456Z")
    ),
    **dict.fromkeys(("seed", "repeat", "block", "order"), (is_integer, "an integer")),
    **dict.fromkeys(
        ("overrides", "identity", "config", "environment", "hardware", "measured", "verdict"),
        (_is_mapping, "a mapping"),
    ),
    **dict.fromkeys(("phases", "epochs"), (_is_list_of_mappings, "a list of mappings")),
    "round": (_or_none(_is_round), "a round with its id, or null"),
    "turns": (_is_columns, "a mapping of lists of equal length"),
    "choices": (_is_choices, "a mapping of strings"),
    "alias": (_or_none(_is_text), "a string or null"),
    "digest": (_is_text, "a string"),
}
PHASE: Mapping[str, tuple[Check, str]] = {
    "name": (_is_text, "a string"),
    "start": (is_number, "a number"),
    "end": (is_number, "a number"),
    "timed": (lambda value: isinstance(value, bool), "true or false"),
    "details": (_is_mapping, "a mapping"),
}
EPOCH: Mapping[str, tuple[Check, str]] = {
    **dict.fromkeys(("epoch", "samples", "steps"), (is_number, "a number")),
    **dict.fromkeys(("start", "seconds"), (is_number, "a number")),
    **dict.fromkeys(
        ("loss", "acc", "val_loss", "val_acc", "val_seconds", "took"),
        (_or_none(is_number), "a number or null"),
    ),
}
REASON: Mapping[str, tuple[Check, str]] = dict.fromkeys(
    ("code", "text", "remedy"), (_is_text, "a string")
)


def check_record(data: Mapping[str, Any]) -> None:
    """Raises a `ValueError` that names the first field with a wrong value."""
    _check(data, RECORD, "")
    for number, phase in enumerate(data["phases"]):
        _check(phase, PHASE, f"phases[{number}].")
    for number, epoch in enumerate(data["epochs"]):
        _check(epoch, EPOCH, f"epochs[{number}].")
    reasons = data["verdict"].get("reasons")
    if not _is_list_of_mappings(reasons):
        raise ValueError("verdict.reasons is not a list of mappings")
    for number, reason in enumerate(reasons):
        _check(reason, REASON, f"verdict.reasons[{number}].")


def _check(data: Mapping[str, Any], fields: Mapping[str, tuple[Check, str]], where: str) -> None:
    for name, (check, expected) in fields.items():
        if name in data and not check(data[name]):
            raise ValueError(f"{where}{name} is {str(data[name])[:80]!r}, not {expected}")
