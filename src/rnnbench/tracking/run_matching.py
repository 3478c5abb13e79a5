"""Matches MLflow's runs to records. No side effects."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from rnnbench.tracking.mapping import COMPLETE, MACHINE, RECORD, STARTED


@dataclass(frozen=True)
class TrackedRun:
    """A run in MLflow. `status` is MLflow's; `params` are the keys of its parameters."""

    run_id: str
    name: str
    status: str
    tags: Mapping[str, str]
    params: frozenset[str] = frozenset()

    @property
    def complete(self) -> bool:
        return COMPLETE in self.tags


def runs_of_record(runs: Sequence[TrackedRun], key: str) -> list[TrackedRun]:
    """The runs of record `key`, with the run to keep first. There are several if a server created
    a run and died before it could respond."""
    matching = [run for run in runs if run.tags.get(RECORD) == key]
    return sorted(matching, key=lambda run: (not run.complete, -len(run.params), run.run_id))


def stale_runs(runs: Sequence[TrackedRun], key: str, recorded: Collection[str]) -> list[TrackedRun]:
    """Live-mirrored runs whose process was killed: still "running" on this machine under the same
    name, started before the run of record `key`, and not among `recorded` (start times of the runs
    that left a record). A run folder has one run at a time, so none of them is alive."""
    machine, name, started = key.split("/")
    return [
        run
        for run in runs
        if run.status == "RUNNING"
        and run.name == name
        and run.tags.get(MACHINE) == machine
        and not run.complete
        and run.tags.get(STARTED, started) < started
        and run.tags[STARTED] not in recorded
    ]
