"""What a choice requires of the rest of its cell.

A choice's YAML may hold ``requires: [{key: device.kind, in: [gpu], why: "…"}]``; a cell whose
config has another value there is skipped, with `why` as its reason. With ``null`` in the list
the key may also be absent. With ``when: {build.framework: [keras3_torch]}`` it is asked only of
cells whose config has one of these values there. What an rnn choice may say shorter, and what
every kernel of the user's own requires, is in ``own``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rnnbench.errors import ConfigError
from rnnbench.grid.dotted_keys import ABSENT, lookup
from rnnbench.grid.point import GROUPS
from rnnbench.grid.rnn_choice import unmet_by_own


def unmet(config: Mapping[str, Any]) -> str | None:
    """The reason of the first requirement that fails, in the axes' order, or None."""
    for group in GROUPS:
        section = config[group]
        if group == "rnn" and (why := unmet_by_own(config)):
            return why
        for entry in section.get("requires") or ():
            where = f"{group}={section.get('name', '?')}"
            if not isinstance(entry, dict) or {*entry, "when"} != {"key", "in", "why", "when"}:
                raise ConfigError(
                    f"requires has {entry!r}.",
                    where=where,
                    remedy='write {key: device.kind, in: [gpu], why: "the reason"}.',
                )
            if not _asked(config, entry.get("when") or {}, where):
                continue
            if lookup(config, entry["key"]) is ABSENT and None in entry["in"]:
                continue
            if _value(config, entry["key"], where) not in entry["in"]:
                return str(entry["why"])
    return None


def _asked(config: Mapping[str, Any], when: Any, where: str) -> bool:
    if not isinstance(when, dict) or not all(isinstance(one, list) for one in when.values()):
        raise ConfigError(
            f"requires has when: {when!r}.",
            where=where,
            remedy="write when: {build.framework: [keras3_torch]}.",
        )
    return all(_value(config, key, where) in values for key, values in when.items())


def _value(config: Mapping[str, Any], key: str, where: str) -> Any:
    value = lookup(config, key)
    if value is ABSENT:
        group, _, rest = key.partition(".")
        name = lookup(config, f"{group}.name")
        chosen = group if name is ABSENT else f"{group}={name}"
        raise ConfigError(
            f"requires {key}, which {chosen} does not say.",
            where=where,
            remedy=f"add {rest or key} to {chosen}.",
        )
    return value
