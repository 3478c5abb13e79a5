"""JSON from outside, as strictly as it is written here: no NaN or infinity, no number that is
none of a computer's, no nesting that only breaks a reader, no half of a character."""

from __future__ import annotations

import json
import math
from typing import Any

DEEPEST = 60
LARGEST = 2**64


def loads(content: str | bytes) -> Any:
    """The data in `content`, or a `ValueError` in words."""
    try:
        text = content if isinstance(content, str) else content.decode("utf-8")
        data = json.loads(
            text, parse_constant=_constant, parse_float=_finite, parse_int=_whole_number
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if "\\ud" in text or "\\uD" in text:
        # Two halves make a character; one alone cannot be written to any page.
        json.dumps(data, ensure_ascii=False).encode("utf-8")
    if _deeper(data, DEEPEST):
        raise ValueError("it is nested too deeply")
    return data


def _deeper(data: Any, left: int) -> bool:
    if isinstance(data, dict):
        data = data.values()
    elif not isinstance(data, list):
        return False
    return left == 0 or any(
        _deeper(item, left - 1) for item in data if isinstance(item, dict | list)
    )


def _constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is too large a number")
    return number


def _whole_number(text: str) -> int:
    number = int(text)
    if abs(number) > LARGEST:
        raise ValueError(f"{text[:40]} is too large a number")
    return number
