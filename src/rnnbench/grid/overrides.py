"""Overrides of a config: parsed in Hydra's grammar and applied strictly, so that a misspelt key or
a value of the wrong type is an error. Configs are nested dicts, which are read by dotted keys and
never modified."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rnnbench.errors import ConfigError, suggestion

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

Config = Mapping[str, Any]


class Rules(NamedTuple):
    """What is known about the keys of a config, by the config and a dotted key.

    - `why_not_added`: why nothing would read an added key, and what to do; or None.
    - `hint_to_add`: how to write an override of a key that does not exist.
    - `why_not_deleted`: what to do in place of deleting a key that is needed; or None.
    - `may_be_null`: whether null is a value of it.
    - `is_text`: whether every text is a value of it.
    """

    why_not_added: Callable[[Config, str], tuple[str, str] | None]
    hint_to_add: Callable[[Config, str], str]
    why_not_deleted: Callable[[Config, str], str | None]
    may_be_null: Callable[[Config, str], bool]
    is_text: Callable[[Config, str], bool]


class Setting(NamedTuple):
    """A key with its values, or with one of them in a combination. `mode` is Hydra's prefix: empty,
    ``+``, ``++`` or ``~``; `where` is its location, for errors."""

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
        return ConfigError(what, where=self.where, remedy=remedy)


def parse_overrides(
    overrides: Sequence[str], where: str, options: Callable[[str], Sequence[str]]
) -> dict[str, Setting]:
    """Key → setting. `options` lists the choices of a group, for ``glob(…)``."""
    settings: dict[str, Setting] = {}
    for text in overrides:
        setting = _parse(text, where, options)
        if setting.key in settings:
            remedy = f"write it once, with its values separated by commas: {setting.written}=A,B."
            if setting.mode == "~":
                remedy = f"write only one of {setting.written} and the other."
            raise setting.error(f"{setting.key} is set twice.", remedy)
        settings[setting.key] = setting
    return settings


def combinations(settings: Mapping[str, Setting]) -> Iterator[dict[str, Setting]]:
    """The product of all settings: key → the setting with one of its values. Raises `ConfigError`
    if it has more than `MOST_POINTS`."""
    count = math.prod(len(setting.values) for setting in settings.values())
    if count > MOST_POINTS:
        longest = max(settings.values(), key=lambda setting: len(setting.values))
        raise longest.error(f"the grid has {count:,} points.", TOO_MANY)
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
    setting = Setting(override.key_or_group, MODES[override.type.name], (), where)
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
    if not setting.values:
        raise setting.error(
            f"{text!r} has no value, so the grid is empty.",
            "widen the pattern or the range.",
        )
    return setting


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


def apply_settings(
    config: Config, settings: Iterable[Setting], rules: Rules
) -> tuple[Config, dict[str, Any]]:
    """The config with the `value` of each setting, and its differences from `config`: dotted key →
    value, ``~key`` for a deleted key. `config` is not modified."""
    differing: dict[str, Any] = {}
    flat: list[Setting] = []
    for setting in settings:
        if lookup(config, setting.key) is None:
            flat.append(setting)
        else:
            flat += _leaves(setting)
    for setting in sorted(flat, key=lambda leaf: (leaf.mode not in ("+", "++"), leaf.key)):
        key = setting.key
        default = lookup(config, key)
        _check(config, setting, default, rules)
        if setting.mode == "~":
            config = replaced(config, key.split("."), ABSENT)
            differing[f"~{key}"] = None
            continue
        value = _fitting(config, setting, default, rules)
        if not same(value, default):
            config = replaced(config, key.split("."), value)
            differing[key] = value
    return config, differing


def _leaves(setting: Setting) -> Iterator[Setting]:
    """Splits a setting whose value is a dict into settings of single keys, as Hydra merges
    dicts."""
    if setting.mode == "~" or not isinstance(setting.value, dict) or not setting.value:
        yield setting
        return
    for key, value in setting.value.items():
        yield from _leaves(setting._replace(key=f"{setting.key}.{key}", values=(value,)))


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
        yield f"{prefix}{key}"
        if isinstance(value, dict):
            yield from keys_of(value, f"{prefix}{key}.")


def _check(config: Config, setting: Setting, default: Any, rules: Rules) -> None:
    """Raises a `ConfigError` if the setting cannot be added, changed or deleted, as its mode says.
    `default`: the value that it would replace."""
    if setting.mode == "~":
        _check_deleted(config, setting, default, rules)
        return
    key, written = setting.key, setting.written
    if setting.mode == "" and default is ABSENT:
        raise setting.error(
            f"{written} is not a key of the config.",
            rules.hint_to_add(config, key),
        )
    if setting.mode == "+" and default is not ABSENT:
        raise setting.error(
            f"{written} adds a key that exists already.",
            f"write {key}=VALUE to change it.",
        )
    if setting.mode == "" or default is not ABSENT:
        return
    parent = key.rpartition(".")[0]
    above = lookup(config, parent) if parent else config
    if above not in (ABSENT, None) and not isinstance(above, dict):
        raise setting.error(
            f"{written}: {parent} is {_kind(above)} and has no keys.",
            "remove it.",
        )
    unread = rules.why_not_added(config, key)
    if unread:
        reason, remedy = unread
        raise setting.error(f"{reason}.", remedy)


def _check_deleted(config: Config, setting: Setting, default: Any, rules: Rules) -> None:
    """`_check` for a setting that deletes a key."""
    key, written = setting.key, setting.written
    if default is ABSENT:
        needless = [f"~{k}" for k in keys_of(config) if rules.why_not_deleted(config, k) is None]
        raise setting.error(
            f"{written} is not a key of the config.",
            f"{suggestion(written, needless)}remove it.",
        )
    needed = rules.why_not_deleted(config, key)
    if needed:
        raise setting.error(f"{written} deletes a key that a run needs.", needed)
    if setting.value is not None and not same(setting.value, default):
        raise setting.error(
            f"{written}={setting.value!r} deletes a key whose value is {default!r}.",
            f"write {written}.",
        )


def _fitting(config: Config, setting: Setting, default: Any, rules: Rules) -> Any:
    """The value in the type of its default. Raises a `ConfigError` if the types do not match."""
    key, value = setting.key, setting.value
    if isinstance(value, float) and not math.isfinite(value):
        raise setting.error(f"{key}={value} is not finite.", "write a finite number.")
    if default in (ABSENT, None, "???") or _is_reference(default) or _is_reference(value):
        return value
    if value is None:
        if rules.may_be_null(config, key):
            return value
        raise setting.error(
            f"{key}=null has no meaning.",
            f"write a value; its default is {default!r}.",
        )
    fitting = _in_type_of(value, default)
    if fitting is None:
        wanted = _kind(default)
        if isinstance(value, list) and isinstance(default, list):
            wanted += " with items of the type of its default's"
        quotes = ""
        is_text = isinstance(default, str) and rules.is_text(config, key)
        if is_text and not isinstance(value, list | dict):
            quotes = "; put the value in quotes"
        raise setting.error(
            f"{key}={value!r} is {_kind(value)}; it must be {wanted}.",
            f"its default is {default!r}{quotes}.",
        )
    return fitting


def _in_type_of(value: Any, default: Any) -> Any:
    """`value` in the type of `default`, and so its items, if those of `default` have one type; None
    if that cannot be."""
    if isinstance(default, float) and type(value) is int:
        return float(value)
    if type(value) is not type(default):
        return None
    if not isinstance(value, list):
        return value
    kinds = {type(item) for item in default}
    if len(kinds) != 1 or kinds & {list, dict, type(None)}:
        return value
    items = [_in_type_of(item, default[0]) for item in value]
    return None if None in items else items


def _is_reference(value: Any) -> bool:
    return isinstance(value, str) and "${" in value


def _kind(value: Any) -> str:
    return KINDS.get(type(value), type(value).__name__)


def same(value: Any, default: Any) -> bool:
    """Whether two values of a config are equal and have the same types, at every depth."""
    if type(value) is not type(default):
        return False
    if isinstance(value, list):
        return len(value) == len(default) and all(map(same, value, default))
    if isinstance(value, dict):
        return value.keys() == default.keys() and all(same(value[k], default[k]) for k in value)
    return bool(value == default)
