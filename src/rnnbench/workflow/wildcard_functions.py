"""The parameters of the rules that make rounds, certificates and probes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from rnnbench.builds.pins import ENVIRONMENTS, pins_of
from rnnbench.planning.plan import Preflight, Round
from rnnbench.workflow.snakemake_hooks import memoized

Planned = TypeVar("Planned", bound=Round | Preflight)


@memoized
class WildcardFunctions(Generic[Planned]):
    """Functions of a rule's wildcards: the value of `wildcard` is the key in `items`. `kind` names
    the items in the error for an unknown key."""

    def __init__(self, kind: str, wildcard: str, items: Mapping[str, Planned], root: Path):
        self._kind, self._wildcard, self._items, self._root = kind, wildcard, items, root

    def planned(self, wildcards) -> Planned:
        key = getattr(wildcards, self._wildcard)
        try:
            return self._items[key]
        except KeyError:
            raise ValueError(f"the experiment has no {self._kind} {key}") from None

    def dataset(self, wildcards) -> list[str]:
        """The dataset files, without duplicates."""
        paths = (config["dataset"].get("path") for config in self.planned(wildcards).configs)
        return list(dict.fromkeys(filter(None, paths)))

    def environment(self, wildcards) -> list[str]:
        """The files of the builds' environments, for builds that have a separate one."""
        builds = (config["build"] for config in self.planned(wildcards).configs)
        all_pins = (pins_of(build, self._root) for build in builds)
        return list(dict.fromkeys(f"{ENVIRONMENTS}/{pins.key}.json" for pins in all_pins if pins))

    def identity(self, wildcards) -> dict[str, Any]:
        return dict(self.planned(wildcards).identity)

    def digest(self, wildcards) -> str:
        return self.planned(wildcards).digest

    def device(self, wildcards) -> str:
        """The device of a round; if it has several, the one with most threads."""
        devices = [config["device"] for config in self.planned(wildcards).configs]
        return str(max(devices, key=lambda device: device.get("threads") or 0)["name"])
