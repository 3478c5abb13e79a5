"""Checks the requirements of a choice on the rest of the grid point.

The YAML file of a choice may contain ``requires: [{key: device.kind, in: [gpu], why: "…"}]``. A
grid point whose config has another value at `key` is skipped, with `why` as the reason. If the list
contains ``null``, the key may also be absent. With ``when: {build.framework: [keras3_torch]}`` the
requirement applies only to grid points whose config has one of these values. ``rnn_choice`` checks
the shorthand ``cells`` of an rnn choice and the requirements of every user-supplied kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rnnbench.axes import NAMES
from rnnbench.errors import ConfigError
from rnnbench.grid.dotted_keys import ABSENT, lookup
from rnnbench.grid.rnn_choice import unmet_rnn_requirement


def unmet(config: Mapping[str, Any]) -> str | None:
    """The reason of the first unmet requirement, in the order of the axes, or None."""
    for group in NAMES:
        section = config[group]
        if group == "rnn" and (why := unmet_rnn_requirement(config)):
            return why
        for entry in section.get("requires") or ():
            where = f"{group}={section.get('name', '?')}"
            if not isinstance(entry, dict) or {*entry, "when"} != {"key", "in", "why", "when"}:
                raise ConfigError(
                    f"requires has the invalid entry {entry!r}.",
                    where=where,
                    remedy='write {key: device.kind, in: [gpu], why: "the reason"}.',
                )
            if not _applies(config, entry.get("when") or {}, where):
                continue
            if lookup(config, entry["key"]) is ABSENT and None in entry["in"]:
                continue
            if _value(config, entry["key"], where) not in entry["in"]:
                return str(entry["why"])
    return None


def _applies(config: Mapping[str, Any], when: Any, where: str) -> bool:
    if not isinstance(when, dict) or not all(isinstance(values, list) for values in when.values()):
        raise ConfigError(
            f"requires has the invalid condition when: {when!r}.",
            where=where,
            remedy="write when: {build.framework: [keras3_torch]}.",
        )
    return all(_value(config, key, where) in values for key, values in when.items())


def _value(config: Mapping[str, Any], key: str, where: str) -> Any:
    value = lookup(config, key)
    if value is ABSENT:
        group, _, rest = key.partition(".")
        name = lookup(config, f"{group}.name")
        choice = group if name is ABSENT else f"{group}={name}"
        raise ConfigError(
            f"requires {key}, which {choice} does not set.",
            where=where,
            remedy=f"add {rest or key} to {choice}.",
        )
    return value
