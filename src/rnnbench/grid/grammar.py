"""Parses grids in Hydra's override grammar: text → settings → combinations."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import (
    Glob,
    Override,
    OverrideType,
    QuotedString,
    Transformer,
    ValueType,
)
from hydra.errors import HydraException

from rnnbench.errors import ConfigError

MODES = {
    OverrideType.CHANGE: "",
    OverrideType.ADD: "+",
    OverrideType.FORCE_ADD: "++",
    OverrideType.DEL: "~",
}


@dataclass(frozen=True)
class Setting:
    """A key with its values. `mode` is Hydra's prefix: empty, ``+``, ``++`` or ``~``; `where` is
    its location, for errors."""

    key: str
    mode: str
    values: tuple[Any, ...]
    where: str


def parse_overrides(
    overrides: Sequence[str], where: str, options: Callable[[str], Sequence[str]]
) -> dict[str, Setting]:
    """Key → setting. `options` lists the choices of a group, for ``glob(…)``."""
    settings: dict[str, Setting] = {}
    for text in overrides:
        setting = _parse(text, where, options)
        if setting.key in settings:
            raise ConfigError(
                f"{setting.key} is set twice.",
                where=where,
                remedy=f"write it once, with its values separated by commas: {setting.key}=A,B.",
            )
        settings[setting.key] = setting
    return settings


def combinations(settings: Mapping[str, Setting]) -> Iterator[dict[str, tuple[Setting, Any]]]:
    """The product of all settings: key → (setting, one of its values)."""
    for values in itertools.product(*(setting.values for setting in settings.values())):
        yield {
            key: (setting, value)
            for (key, setting), value in zip(settings.items(), values, strict=True)
        }


def _parse(text: str, where: str, options: Callable[[str], Sequence[str]]) -> Setting:
    try:
        override = OverridesParser.create().parse_override(text)
    except HydraException as error:
        raise ConfigError(
            f"{text!r} is not an override{_error_position(str(error))}.",
            where=where,
            remedy="write key=value or key=value,value without spaces around '=' and ','; "
            "put a string that contains a space or a comma in quotes.",
        ) from None
    except RecursionError:
        raise ConfigError(
            f"{text[:40]}… is nested too deeply.", where=where, remedy="write a simpler value."
        ) from None
    if override.package is not None:
        raise ConfigError(
            f"{text!r} names a package.", where=where, remedy="remove '@' and the package name."
        )
    values = tuple(_plain(value) for value in _values(override, text, where, options))
    if not values:
        raise ConfigError(
            f"{text!r} has no value, so the grid is empty.",
            where=where,
            remedy="widen the pattern or the range.",
        )
    return Setting(override.key_or_group, MODES[override.type], values, where)


def _error_position(message: str) -> str:
    """The position in a parser error `message`, without the list of expected tokens."""
    match = re.search(r"at input '(.*?)'|input '(.*?)' expecting|missing (\S+) at", message)
    if match is None:
        return ""
    rest = next(filter(None, match.groups()), "")
    return " (it ends too early)" if rest in ("", "<EOF>") else f" (invalid from {rest!r} on)"


def _values(
    override: Override, text: str, where: str, options: Callable[[str], Sequence[str]]
) -> Sequence[Any]:
    if not override.is_sweep_override():
        return [override.value()]
    if override.value_type == ValueType.INTERVAL_SWEEP:
        raise ConfigError(
            f"{text!r} is an interval, which has no discrete values.",
            where=where,
            remedy="use range(start,stop,step) or a list A,B,C.",
        )
    pattern = override.value()
    if isinstance(pattern, Glob):
        return pattern.filter(list(options(override.key_or_group)))
    return list(override.sweep_iterator(transformer=Transformer.identity))


def _plain(value: Any) -> Any:
    if isinstance(value, QuotedString):
        return value.text
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(_plain(key)): _plain(item) for key, item in value.items()}
    return value
