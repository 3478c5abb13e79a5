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

import msgspec

from rnnbench.axes import NAMES
from rnnbench.errors import ConfigError
from rnnbench.grid.dotted_keys import ABSENT, lookup
from rnnbench.grid.replicas import unmet_replicas
from rnnbench.grid.rnn_choice import unmet_rnn_requirement
from rnnbench.validation import converted


class Requirement(msgspec.Struct, forbid_unknown_fields=True):
    key: str
    values: list[Any] = msgspec.field(name="in")
    why: str
    when: dict[str, list[Any]] | None = None


def unmet(config: Mapping[str, Any]) -> str | None:
    """The reason of the first unmet requirement, in the order of the axes, then of replicas; or
    None."""
    for group in NAMES:
        section = config[group]
        if group == "rnn" and (why := unmet_rnn_requirement(config)):
            return why
        where = f"{group}={section.get('name', '?')}: requires"
        for entry in section.get("requires") or ():
            remedy = 'write {key: device.kind, in: [gpu], why: "the reason"}.'
            required = converted(entry, Requirement, where, remedy)
            conditions = (required.when or {}).items()
            if not all(_value(config, key, where) in values for key, values in conditions):
                continue
            if lookup(config, required.key) is ABSENT and None in required.values:
                continue
            if _value(config, required.key, where) not in required.values:
                return required.why
    return unmet_replicas(config)


def _value(config: Mapping[str, Any], key: str, where: str) -> Any:
    value = lookup(config, key)
    if value is ABSENT:
        group, _, rest = key.partition(".")
        name = lookup(config, f"{group}.name")
        choice = group if name is ABSENT else f"{group}={name}"
        raise ConfigError(
            f"{key} is needed, but {choice} does not set it.",
            where=where,
            remedy=f"add {rest or key} to {choice}.",
        )
    return value
