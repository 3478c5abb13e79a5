"""Checks of values in files, beyond their types."""

from __future__ import annotations

from rnnbench.errors import RecordError
from rnnbench.records import timestamps


def check_path_component(field: str, value: str) -> None:
    """Raises a `ValueError` unless `value` can be the name of a file or folder in its parent."""
    is_one = (
        0 < len(value.encode("utf-8", "replace")) <= 255
        and value not in (".", "..")
        and not any(letter in "/\\" or ord(letter) < 32 for letter in value)
    )
    if not is_one:
        raise ValueError(f"{field} is {value[:80]!r}, not a path component")


def check_timestamp(field: str, value: str) -> None:
    """Raises a `ValueError` unless `value` is a timestamp."""
    try:
        timestamps.read(value)
    except RecordError:
        example = "a timestamp such as 20261121T075000_123456Z"
        raise ValueError(f"{field} is {value[:80]!r}, not {example}") from None
