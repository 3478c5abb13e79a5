"""What the rules of rounds, certificates and probes are told of the one they make."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from rnnbench.builds.pins import ENVIRONMENTS, pins_of
from rnnbench.grid.preflight import Preflight
from rnnbench.planning.plan import Round
from rnnbench.workflow.snakemake_hooks import memoized

Planned = TypeVar("Planned", bound=Round | Preflight)


@memoized
class WildcardFunctions(Generic[Planned]):
    """Functions of a rule's wildcards, of which `wildcard` is the key in `planned`. `what` these
    are is for the error where there is no such key."""

    def __init__(self, what: str, wildcard: str, planned: Mapping[str, Planned], root: Path):
        self._what, self._wildcard, self._planned, self._root = what, wildcard, planned, root

    def one(self, wildcards) -> Planned:
        key = getattr(wildcards, self._wildcard)
        try:
            return self._planned[key]
        except KeyError:
            raise ValueError(f"the experiment has no {self._what} {key}") from None

    def dataset(self, wildcards) -> list[str]:
        """The datasets' files, where they have one."""
        paths = (config["dataset"].get("path") for config in self.one(wildcards).configs)
        return list(dict.fromkeys(filter(None, paths)))

    def environment(self, wildcards) -> list[str]:
        """The environments of the builds, where they have one of their own."""
        builds = (config["build"] for config in self.one(wildcards).configs)
        pins = (pins_of(build, self._root) for build in builds)
        return list(dict.fromkeys(f"{ENVIRONMENTS}/{one.key}.json" for one in pins if one))

    def identity(self, wildcards) -> dict[str, Any]:
        return dict(self.one(wildcards).identity)

    def digest(self, wildcards) -> str:
        return self.one(wildcards).digest

    def device(self, wildcards) -> str:
        """That with most threads, where several are of one round."""
        devices = [config["device"] for config in self.one(wildcards).configs]
        return str(max(devices, key=lambda device: device.get("threads") or 0)["name"])
