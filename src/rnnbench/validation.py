"""Converts data of a file that users write to typed objects, with errors of one line."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from rnnbench.errors import ConfigError

Kind = TypeVar("Kind")


def converted(data: Any, kind: type[Kind], where: str, remedy: str, *, strict: bool = True) -> Kind:
    """`data` as a `kind`. Raises a `ConfigError` that names `where`, the key and what it expects.
    `strict=False`: texts such as those of a CSV file may stand for numbers."""
    try:
        return msgspec.convert(data, kind, strict=strict)
    except msgspec.ValidationError as error:
        text, _, path = str(error).partition(" - at `$")
        key = path.strip(".`")
        raise ConfigError(
            f"{key}: {text}." if key else f"{text}.", where=where, remedy=remedy
        ) from None
