"""Which of MLflow's runs is this record's: pure decisions on what a search found."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from rnnbench.tracking.mapping import COMPLETE, MACHINE, RECORD, STARTED


@dataclass(frozen=True)
class Found:
    """A run that MLflow has: `status` is its word for it, `params` the keys it has."""

    run_id: str
    name: str
    status: str
    tags: Mapping[str, str]
    params: frozenset[str] = frozenset()

    @property
    def complete(self) -> bool:
        return COMPLETE in self.tags


def own(found: Sequence[Found], key: str) -> list[Found]:
    """The runs of record `key`, the one to keep first. There is more than one when a server
    created a run and died before it could say so."""
    runs = [run for run in found if run.tags.get(RECORD) == key]
    return sorted(runs, key=lambda run: (not run.complete, -len(run.params), run.run_id))


def stale_runs(found: Sequence[Found], key: str, recorded: Collection[str]) -> list[Found]:
    """Runs mirrored live whose process was killed: still "running" on this machine under this
    name, begun before the run of record `key`, and not among `recorded` (when runs began that
    left a record). One run folder has one run at a time, so none of them is alive."""
    machine, name, started = key.split("/")
    return [
        run
        for run in found
        if run.status == "RUNNING"
        and run.name == name
        and run.tags.get(MACHINE) == machine
        and not run.complete
        and run.tags.get(STARTED, started) < started
        and run.tags[STARTED] not in recorded
    ]
