"""A strict JSON reader for untrusted files: rejects NaN, infinity, numbers out of range, deep
nesting and lone surrogates."""

from __future__ import annotations

import json
import math
from typing import Any

MAX_DEPTH = 60
MAX_INTEGER = 2**64


def loads(content: str | bytes) -> Any:
    """The data in `content`. Raises a `ValueError` with a readable message if it is not valid."""
    try:
        text = content if isinstance(content, str) else content.decode("utf-8")
        data = json.loads(
            text, parse_constant=_refuse_constant, parse_float=_finite, parse_int=_integer
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if "\\ud" in text or "\\uD" in text:
        # A lone surrogate cannot be encoded.
        json.dumps(data, ensure_ascii=False).encode("utf-8")
    if _is_deeper(data, MAX_DEPTH):
        raise ValueError("it is nested too deeply")
    return data


def _is_deeper(data: Any, depth: int) -> bool:
    if isinstance(data, dict):
        data = data.values()
    elif not isinstance(data, list):
        return False
    return depth == 0 or any(
        _is_deeper(item, depth - 1) for item in data if isinstance(item, dict | list)
    )


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:40]} is too large")
    return number


def _integer(text: str) -> int:
    number = int(text)
    if abs(number) > MAX_INTEGER:
        raise ValueError(f"the number {text[:40]} is too large")
    return number
