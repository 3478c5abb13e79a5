"""A strict JSON reader for untrusted files: rejects NaN, infinity, numbers out of range, deep
nesting and lone surrogates, and removes control characters from all texts."""

from __future__ import annotations

from typing import Any

import msgspec

from rnnbench.plain_text import may_hold_controls, plain

MAX_DEPTH = 60
MAX_INTEGER = 2**64


def loads(content: bytes) -> Any:
    """The data in `content`. Raises a `ValueError` with a readable message if it is not valid."""
    try:
        data = msgspec.json.decode(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    _check(data, MAX_DEPTH)
    return _plain(data) if may_hold_controls(content) else data


def _check(data: Any, depth: int) -> None:
    if isinstance(data, int) and abs(data) > MAX_INTEGER:
        raise ValueError(f"the number {str(data)[:40]} is too large")
    if isinstance(data, dict | list):
        if depth == 0:
            raise ValueError("it is nested too deeply")
        for item in data.values() if isinstance(data, dict) else data:
            _check(item, depth - 1)


def _plain(data: Any) -> Any:
    if isinstance(data, dict):
        return {plain(key): _plain(item) for key, item in data.items()}
    if isinstance(data, list):
        return [_plain(item) for item in data]
    return plain(data) if isinstance(data, str) else data
