"""What is made once before an experiment's runs, as planned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Preflight:
    """A certificate or a probe to make. `choices`, `overrides`: what the runs that it speaks for
    have in common; `config`: what its worker is given of a run's."""

    key: str
    digest: str
    identity: Mapping[str, Any]
    choices: Mapping[str, str]
    overrides: Mapping[str, Any]
    config: Mapping[str, Any]

    @property
    def configs(self) -> tuple[Mapping[str, Any], ...]:
        return (self.config,)

    def line(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}
