"""Access to nested dicts by dotted keys, without modifying them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

MISSING = "???"
ABSENT = object()


def lookup(config: Any, key: str) -> Any:
    """The value at `key`, or `ABSENT`."""
    for part in key.split("."):
        if not isinstance(config, dict) or part not in config:
            return ABSENT
        config = config[part]
    return config


def replaced(config: Any, path: list[str], value: Any) -> dict[str, Any]:
    """A copy of `config` with `value` at `path`; `ABSENT` removes the key. Everything that is not
    on the path is shared with `config`."""
    copy = dict(config) if isinstance(config, dict) else {}
    first, *rest = path
    if rest:
        copy[first] = replaced(copy.get(first), rest, value)
    elif value is ABSENT:
        del copy[first]
    else:
        copy[first] = value
    return copy


def keys_of(config: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Every dotted key, including those of sections."""
    for key, value in config.items():
        dotted = f"{prefix}.{key}".removeprefix(".")
        yield dotted
        if isinstance(value, dict):
            yield from keys_of(value, dotted)


def missing_keys(config: Any, prefix: str = "") -> list[str]:
    """The dotted keys whose value is missing (``???``)."""
    if not isinstance(config, dict):
        return [prefix] if config == MISSING else []
    return [
        missing
        for key, value in config.items()
        for missing in missing_keys(value, f"{prefix}.{key}".removeprefix("."))
    ]
