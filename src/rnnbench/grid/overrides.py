"""Overrides of a config, applied strictly: a misspelt key or a value of the wrong type is an error.
Configs are nested dicts, which are read by dotted keys and never modified."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rnnbench.errors import ConfigError
from rnnbench.grid.catalogue import suggestion

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


@dataclass(frozen=True)
class Change:
    """An override of a grid point. `mode` is empty, ``+``, ``++`` or ``~``."""

    key: str
    mode: str
    value: Any
    where: str


def apply_changes(
    config: Mapping[str, Any], changes: Iterable[Change]
) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """The changed config, and its differences from `config`: dotted key → value, ``~key`` for a
    deleted key. `config` is not modified."""
    differing: dict[str, Any] = {}
    flat = [leaf for change in changes for leaf in _leaves(change)]
    for change in sorted(flat, key=lambda change: (change.mode not in ("+", "++"), change.key)):
        default = lookup(config, change.key)
        _check(config, change, default)
        if change.mode == "~":
            config = replaced(config, change.key.split("."), ABSENT)
            differing[f"~{change.key}"] = None
            continue
        value = _fitting(change, default)
        if not _same(value, default):
            config = replaced(config, change.key.split("."), value)
            differing[change.key] = value
    return config, differing


def _leaves(change: Change) -> Iterator[Change]:
    """Splits a change whose value is a dict into changes of single keys, as Hydra merges dicts."""
    if change.mode != "~" and isinstance(change.value, dict) and change.value:
        for key, value in change.value.items():
            yield from _leaves(Change(f"{change.key}.{key}", change.mode, value, change.where))
    else:
        yield change


def _check(config: Mapping[str, Any], change: Change, default: Any) -> None:
    if change.mode == "+" and default is not ABSENT:
        raise ConfigError(
            f"+{change.key} adds a key that exists already.",
            where=change.where,
            remedy=f"write {change.key}=VALUE to change it.",
        )
    parent = change.key.rpartition(".")[0]
    above = lookup(config, parent) if parent else config
    if change.mode in ("+", "++") and above is not ABSENT and not isinstance(above, dict):
        raise ConfigError(
            f"{change.mode}{change.key}: {parent} is {_kind(above)} and has no keys.",
            where=change.where,
            remedy="add the key to a section.",
        )
    if change.mode in ("", "~") and default is ABSENT:
        similar = suggestion(change.key, keys_of(config))
        raise ConfigError(
            f"{change.mode}{change.key} is not a key of the config.",
            where=change.where,
            remedy=similar.strip() or f"to add a key, write +{change.key}=VALUE.",
        )
    if change.mode == "~" and change.value is not None and not _same(change.value, default):
        raise ConfigError(
            f"~{change.key}={change.value!r} deletes a key whose value is {default!r}.",
            where=change.where,
            remedy=f"write ~{change.key}.",
        )


def _fitting(change: Change, default: Any) -> Any:
    """The value in the type of its default. Raises a `ConfigError` if the types do not match."""
    value = change.value
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(
            f"{change.key}={value} is not finite.",
            where=change.where,
            remedy="write a finite number.",
        )
    if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    free = default is ABSENT or default is None or default == MISSING or _is_reference(default)
    if free or _is_reference(value) or (value is None and not isinstance(default, dict)):
        return value
    if type(value) is not type(default):
        raise ConfigError(
            f"{change.key}={value!r} is {_kind(value)}; it must be {_kind(default)}.",
            where=change.where,
            remedy=f"its default is {default!r}"
            + ("; put the value in quotes." if isinstance(default, str) else "."),
        )
    return value


def _is_reference(value: Any) -> bool:
    return isinstance(value, str) and "${" in value


def _kind(value: Any) -> str:
    names: dict[type, str] = {
        bool: "true or false",
        int: "an integer",
        float: "a number",
        str: "a string",
        list: "a list",
        dict: "a section with keys",
        type(None): "null",
    }
    return names.get(type(value), type(value).__name__)


def _same(value: Any, default: Any) -> bool:
    return type(value) is type(default) and bool(value == default)
