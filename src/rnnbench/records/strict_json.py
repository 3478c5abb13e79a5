"""A strict JSON reader for untrusted files: rejects NaN, infinity, numbers out of range, deep
nesting and lone surrogates, and removes control characters from all texts."""

from __future__ import annotations

from typing import Any

import msgspec

from rnnbench.plain_text import may_hold_controls, plain

MAX_DEPTH = 60
_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_MANY = b"0" * 21  # digits: of no integer in a file of ours


def loads(content: bytes) -> Any:
    """The data in `content`. Raises a `ValueError` with a readable message if it is not valid."""
    try:
        data = msgspec.json.decode(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if isinstance(data, dict | list):
        _check_depth(data, MAX_DEPTH)
    if _MANY in content.translate(_DIGITS):
        _check_integers(data)
    return _plain(data) if may_hold_controls(content) else data


def _check_depth(data: Any, depth: int) -> None:
    if depth == 0:
        raise ValueError("it is nested too deeply")
    for item in data.values() if type(data) is dict else data:
        if type(item) is dict or type(item) is list:  # most items are numbers
            _check_depth(item, depth - 1)


def _check_integers(data: Any) -> None:
    if isinstance(data, int) and abs(data) >= 10**20:
        raise ValueError(f"the number {str(data)[:40]} is too large")
    if isinstance(data, dict | list):
        for item in data.values() if isinstance(data, dict) else data:
            _check_integers(item)


def _plain(data: Any) -> Any:
    if isinstance(data, dict):
        return {plain(key): _plain(item) for key, item in data.items()}
    if isinstance(data, list):
        return [_plain(item) for item in data]
    return plain(data) if isinstance(data, str) else data
