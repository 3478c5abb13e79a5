"""What the rules of runs, certificates and probes are told of the one they make."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from rnnbench.builds.pins import ENVIRONMENTS, pins_of
from rnnbench.cells.preflight import Preflight
from rnnbench.planning import Run
from rnnbench.workflow.tuning import told_once

Planned = TypeVar("Planned", bound=Run | Preflight)


@told_once
class Lookup(Generic[Planned]):
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
        """The dataset's file, where it has one."""
        path = self.one(wildcards).config["dataset"].get("path")
        return [path] if path else []

    def environment(self, wildcards) -> list[str]:
        """The environment of the build, where it has one of its own."""
        pins = pins_of(self.one(wildcards).config["build"], self._root)
        return [f"{ENVIRONMENTS}/{pins.key}.json"] if pins else []

    def identity(self, wildcards) -> dict[str, Any]:
        return dict(self.one(wildcards).identity)

    def digest(self, wildcards) -> str:
        return self.one(wildcards).digest

    def device(self, wildcards) -> str:
        return str(self.one(wildcards).config["device"]["name"])
