"""Base class of the planned jobs that precede an experiment's runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Preflight:
    """A certificate or a probe to make. `choices`, `overrides`: those that the runs it applies to
    have in common; `config`: the part of a run's config that its worker receives."""

    key: str
    digest: str
    identity: Mapping[str, Any]
    choices: Mapping[str, str]
    overrides: Mapping[str, Any]
    config: Mapping[str, Any]

    @property
    def configs(self) -> tuple[Mapping[str, Any], ...]:
        return (self.config,)

    def as_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}
