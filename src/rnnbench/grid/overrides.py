"""Overrides, parsed in Hydra's grammar; and configs: nested dicts, read by dotted keys and never
modified."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rnnbench.errors import ConfigError

ABSENT = object()
MOST_POINTS = 100_000  # of a grid, and values of a range
TOO_MANY = (
    f"write fewer values: a grid has at most {MOST_POINTS:,} points; several grids may have more."
)
# Hydra's type of override → its prefix.
MODES = {
    "CHANGE": "",
    "ADD": "+",
    "FORCE_ADD": "++",
    "DEL": "~",
}
KINDS: dict[type, str] = {
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "a string",
    dict: "a section with keys",
    list: "a list",
    type(None): "null",
}

Config = Mapping[str, Any]  # or a section of one
SourceOf = Callable[[str], str]  # dotted key → the file or grid that sets it, for errors


class Setting(NamedTuple):
    """A key with its values, or with one of them in a combination.

    - `key`: dotted, such as ``model.units``, or the name of an axis.
    - `mode`: Hydra's prefix: empty, ``+``, ``++`` or ``~``.
    - `values`: as plain data; None for null.
    - `where`: the location of the override, for errors.
    """

    key: str
    mode: str
    values: tuple[Any, ...]
    where: str

    @property
    def value(self) -> Any:
        """The first value; in a combination the only one."""
        return self.values[0]

    @property
    def written(self) -> str:
        """The key with its prefix."""
        return f"{self.mode}{self.key}"

    def error(self, what: str, remedy: str) -> ConfigError:
        """The error that `what` is wrong with this override."""
        return ConfigError(what, where=self.where, remedy=remedy)


def parse_overrides(
    overrides: Sequence[str], where: str, options: Callable[[str], Sequence[str]]
) -> dict[str, Setting]:
    """Key → setting, in the order of `overrides`.

    - `where`: their location, for errors.
    - `options`: lists the choices of a group, for ``glob(…)``.

    Raises a `ConfigError` for a text that is not an override, and for a key that is set twice.
    """
    settings = {}
    for text in overrides:
        setting = _parse(text, where, options)
        if setting.key in settings:
            remedy = f"write it once, with its values separated by commas: {setting.written}=A,B."
            if setting.mode == "~":
                remedy = f"write only one of {setting.written} and the other."
            raise setting.error(f"{setting.key} is set twice.", remedy)
        settings[setting.key] = setting

    return settings


def key_of(override: str) -> str:
    """The key that an override in Hydra's grammar sets, adds or removes."""
    return override.partition("=")[0].lstrip("+~")


def combinations(settings: Mapping[str, Setting]) -> Iterator[dict[str, Setting]]:
    """The product of all settings: key → the setting with one of its values. Raises `ConfigError`
    if it has more than `MOST_POINTS`."""
    lengths = {key: len(setting.values) for key, setting in settings.items()}
    count = math.prod(lengths.values())
    if count > MOST_POINTS:
        longest = max(lengths, key=lengths.__getitem__)
        raise settings[longest].error(f"the grid has {count:,} points.", TOO_MANY)

    singles = []
    for setting in settings.values():
        singles.append([setting._replace(values=(value,)) for value in setting.values])
    for combination in itertools.product(*singles):
        yield dict(zip(settings, combination, strict=True))


def _parse(text: str, where: str, options: Callable[[str], Sequence[str]]) -> Setting:
    # Here, because processes that measure import this module and must stay small.
    from hydra.core.override_parser import types
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    def plain(value: Any) -> Any:
        if isinstance(value, types.QuotedString):
            return value.text
        if isinstance(value, list):
            return [plain(item) for item in value]
        if isinstance(value, dict):
            return {str(plain(key)): plain(item) for key, item in value.items()}
        return value

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
            f"{text[:40]}… is nested too deeply.",
            where=where,
            remedy="write a simpler value.",
        ) from None
    setting = Setting(
        override.key_or_group,
        MODES[override.type.name],
        (),
        where,
    )
    if override.package is not None:
        raise setting.error(f"{text!r} names a package.", "remove '@' and the package name.")
    written = override.value()
    values: Iterable[Any] = [written]
    if isinstance(written, types.IntervalSweep):
        raise setting.error(
            f"{text!r} is an interval, which has no discrete values.",
            "use range(start,stop,step) or a list A,B,C.",
        )
    if isinstance(written, types.RangeSweep):
        count = _count(written.start, written.stop, written.step)
        if not count <= MOST_POINTS:
            raise setting.error(f"{text!r} has {count:,.0f} values.", TOO_MANY)
    if isinstance(written, types.Glob):
        values = written.filter(list(options(setting.key)))
    elif override.is_sweep_override():
        values = override.sweep_iterator(transformer=types.Transformer.identity)
    setting = setting._replace(values=tuple(map(plain, values)))
    if isinstance(written, types.RangeSweep):
        _check_stop(setting, text, written)
    if not setting.values:
        raise setting.error(
            f"{text!r} has no value, so the grid is empty.",
            "widen the pattern or the range.",
        )
    return setting


def _check_stop(setting: Setting, text: str, written: Any) -> None:
    """Raises a `ConfigError` if the values of a range of floats contain its stop, which a range
    excludes: Hydra 1.3 adds up the step with its rounding errors, Hydra 1.4 does not."""
    stop, step = written.stop, written.step
    if not setting.values or not isinstance(step, float):
        return
    if abs(setting.values[-1] - stop) < 1e-6 * abs(step):
        exact = ",".join(f"{value:.12g}" for value in setting.values[:-1])
        raise setting.error(
            f"{text!r} has {len(setting.values)} values and contains its stop, {stop:g}, because "
            "of rounding.",
            f"write the values, {setting.written}={exact}, with or without {stop:g}.",
        )


def _count(start: Any, stop: Any, step: Any) -> float:
    """The number of values of a range, before it is expanded; infinite for a step of 0."""
    try:
        return float((stop - start) / step)
    except ArithmeticError:
        return math.inf


def _error_position(message: str) -> str:
    """The position in a parser error `message`, without the list of expected tokens."""
    match = re.search(r"at input '(.*?)'|input '(.*?)' expecting|missing (\S+) at", message)
    if match is None:
        return ""
    rest = match[1] or match[2] or match[3]
    if rest in ("", None, "<EOF>"):
        return " (it ends too early)"
    return f" (invalid from {rest!r} on)"


def lookup(config: Any, key: str) -> Any:
    """The value at `key`, or `ABSENT`."""
    for part in key.split("."):
        if not isinstance(config, dict) or part not in config:
            return ABSENT
        config = config[part]
    return config


def nearest(located: Mapping[str, str], key: str, default: str = "") -> str:
    """Where `key` is set, or else the innermost section that contains it, or `default`. `located`:
    dotted key or section → where it is set."""
    while key:
        if key in located:
            return located[key]
        key, _, _ = key.rpartition(".")
    return default


def replaced(config: Any, path: list[str], value: Any) -> dict[str, Any]:
    """A copy of `config` with `value` at `path`, the parts of a dotted key; `ABSENT` removes the
    key. Sections on the way that are absent or null are added. Everything that is not on the path
    is shared with `config`."""
    copy = dict(config) if isinstance(config, dict) else {}
    first, *rest = path
    if rest:
        copy[first] = replaced(copy.get(first), rest, value)
    elif value is ABSENT:
        del copy[first]
    else:
        copy[first] = value

    return copy


def keys_of(config: Config, prefix: str = "") -> Iterator[str]:
    """Every dotted key, including those of sections."""
    for key, value in config.items():
        yield f"{prefix}{key}"
        if isinstance(value, dict):
            yield from keys_of(value, f"{prefix}{key}.")


def same(value: Any, default: Any) -> bool:
    """Whether two values of a config are equal and have the same types, at every depth: in JSON,
    1, 1.0 and true differ."""
    first = json.dumps(value, sort_keys=True, default=repr)
    second = json.dumps(default, sort_keys=True, default=repr)
    return first == second
