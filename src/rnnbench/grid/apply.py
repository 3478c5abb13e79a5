"""Applies overrides to a config, strictly: a misspelt key, a key that nothing reads and a value of
the wrong type are errors.

An override that changes nothing is left out, so that it is neither in the name of a grid point nor
in the digest of its run. That is one with the value that is there already, and one that states or
deletes what the absence of the key means.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import inspect

from rnnbench.errors import suggestion
from rnnbench.grid.choices import types_of
from rnnbench.grid.keys import default_of, hint_to_add, why_not_added, why_not_deleted
from rnnbench.grid.overrides import (
    ABSENT,
    KINDS,
    Config,
    Setting,
    keys_of,
    lookup,
    replaced,
    same,
)


def apply_settings(config: Config, settings: Iterable[Setting]) -> tuple[Config, dict[str, Any]]:
    """The config with the `value` of each setting, and its differences from `config`: dotted key →
    value, ``~key`` for a deleted key. `config` is not modified.

    Raises a `ConfigError` for a setting that names an unknown key, deletes a key that a run needs,
    or has a value of another type.
    """
    differing: dict[str, Any] = {}
    flat = []
    for setting in settings:
        if lookup(config, setting.key) is None:
            flat.append(setting)
        else:
            flat += _leaves(setting)

    flat.sort(key=lambda setting: setting.key)
    flat.sort(key=lambda setting: setting.mode not in ("+", "++"))  # those that add keys first
    for setting in flat:
        key = setting.key
        present = lookup(config, key)
        if setting.mode == "~":
            _check_deleted(config, setting, present)
            value = ABSENT
        else:
            _check_key(config, setting, present)
            value = _fitting(config, setting, present)

        changes_nothing = _is_same(
            config,
            key,
            value,
            present,
        )
        if changes_nothing:
            continue
        config = replaced(config, key.split("."), value)
        if value is ABSENT:
            differing[f"~{key}"] = None
        else:
            differing[key] = value

    return config, differing


def _is_same(
    config: Config,
    key: str,
    value: Any,
    present: Any,
) -> bool:
    """Whether `value` means the same as what is `present`; either of them may be absent."""
    if ABSENT in (value, present):
        default = default_of(config, key)
        if value is ABSENT:
            value = default
        else:
            present = default

    if isinstance(present, float) and type(value) is int:
        value = float(value)
    return value is not ABSENT and same(value, present)


def _leaves(setting: Setting) -> Iterator[Setting]:
    """Splits a setting whose value is a dict into settings of single keys, as Hydra merges
    dicts."""
    value = setting.value
    if setting.mode == "~" or not isinstance(value, dict) or not value:
        yield setting
        return
    for key, item in value.items():
        inner = setting._replace(key=f"{setting.key}.{key}", values=(item,))
        yield from _leaves(inner)


def _check_key(config: Config, setting: Setting, present: Any) -> None:
    """Raises a `ConfigError` if the key cannot be added or changed, as the setting's mode says.
    `present`: the value that it would replace."""
    key = setting.key
    written = setting.written
    if present is not ABSENT:
        if setting.mode == "+":
            raise setting.error(
                f"{written} adds a key that exists already.",
                f"write {key}=VALUE to change it.",
            )
        return

    if setting.mode == "":
        raise setting.error(
            f"{written} is not a key of the config.",
            hint_to_add(config, key),
        )

    section, _, _ = key.rpartition(".")
    above = lookup(config, section) if section else config
    if above not in (ABSENT, None) and not isinstance(above, dict):
        raise setting.error(
            f"{written}: {section} is {KINDS[type(above)]} and has no keys.",
            "remove it.",
        )

    unread = why_not_added(config, key)
    if unread:
        reason, remedy = unread
        raise setting.error(f"{reason}.", remedy)


def _check_deleted(config: Config, setting: Setting, present: Any) -> None:
    """Raises a `ConfigError` if the key of the setting cannot be deleted: it is absent, is needed,
    or has another value than the setting states. `present`: its value."""
    key = setting.key
    written = setting.written
    if present is ABSENT:
        keys = [each for each in keys_of(config) if not why_not_deleted(config, each)]
        needless = [f"~{each}" for each in keys]
        raise setting.error(
            f"{written} is not a key of the config.",
            f"{suggestion(written, needless)}remove it.",
        )

    needed = why_not_deleted(config, key)
    if needed:
        raise setting.error(f"{written} deletes a key that a run needs.", needed)
    if setting.value is not None and not same(setting.value, present):
        raise setting.error(
            f"{written}={setting.value!r} deletes a key whose value is {present!r}.",
            f"write {written}.",
        )


def _fitting(config: Config, setting: Setting, present: Any) -> Any:
    """The value of the setting, in the type of the one that is present: an integer becomes a float
    where the default is one. What has no value yet (null, ``???``) is left to `checks`.

    Raises a `ConfigError` if the types do not match, if null has no meaning there, and for a number
    that is not finite.
    """
    key = setting.key
    value = setting.value
    if isinstance(value, float) and not math.isfinite(value):
        raise setting.error(f"{key}={value} is not finite.", "write a finite number.")
    if present in (ABSENT, None, "???"):
        return value
    for each in (present, value):
        if isinstance(each, str) and "${" in each:
            return value

    types = types_of(config, key)
    if value is None:
        if any(isinstance(each, inspect.NoneType) for each in types):
            return value
        raise setting.error(
            f"{key}=null has no meaning.",
            f"write a value; its default is {present!r}.",
        )

    fitting = _in_type_of(value, present)
    if fitting is not None:
        return fitting

    wanted = KINDS[type(present)]
    if isinstance(value, list) and isinstance(present, list):
        wanted += " with items of the type of its default's"

    quotes = ""
    if isinstance(present, str) and not isinstance(value, list | dict):
        # Any text may stand here, and not only one of some names.
        is_text = any(isinstance(each, inspect.StrType | inspect.AnyType) for each in types)
        if is_text or (not types and key.startswith("model.")):
            quotes = "; put the value in quotes"

    raise setting.error(
        f"{key}={value!r} is {KINDS[type(value)]}; it must be {wanted}.",
        f"its default is {present!r}{quotes}.",
    )


def _in_type_of(value: Any, present: Any) -> Any:
    """`value` in the type of `present`, and so its items, if those of `present` have one type; None
    if that cannot be."""
    if isinstance(present, float) and type(value) is int:
        return float(value)
    if type(value) is not type(present):
        return None
    if not isinstance(value, list):
        return value
    kinds = {type(item) for item in present}
    if len(kinds) != 1 or kinds & {list, dict, type(None)}:
        return value
    items = []
    for item in value:
        fitting = _in_type_of(item, present[0])
        if fitting is None:
            return None
        items.append(fitting)

    return items
