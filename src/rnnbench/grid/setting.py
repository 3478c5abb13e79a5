"""A grid's settings: key → values, and their combinations. Parsed by ``grammar``."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

OPENING, CLOSING, QUOTES = "([{", ")]}", "'\""


@dataclass(frozen=True)
class Setting:
    """A key with its values. `mode` is Hydra's prefix: empty, ``+``, ``++`` or ``~``; `where` is
    its location, for errors."""

    key: str
    mode: str
    values: tuple[Any, ...]
    where: str


def split_overrides(text: str) -> list[str]:
    """Splits a string of overrides at whitespace outside quotes and brackets."""
    words, word, depth, quote, escaped = [], "", 0, "", False
    for letter in text:
        if letter.isspace() and depth <= 0 and not quote:
            words.append(word)
            word = ""
            continue
        word += letter
        if quote:
            quote = "" if letter == quote and not escaped else quote
        elif letter in QUOTES:
            quote = letter
        else:
            depth += (letter in OPENING) - (letter in CLOSING)
        escaped = letter == "\\" and not escaped
    return [word for word in [*words, word] if word]


def combinations(settings: Mapping[str, Setting]) -> Iterator[dict[str, tuple[Setting, Any]]]:
    """The product of all settings: key → (setting, one of its values)."""
    for values in itertools.product(*(setting.values for setting in settings.values())):
        yield {
            key: (setting, value)
            for (key, setting), value in zip(settings.items(), values, strict=True)
        }
