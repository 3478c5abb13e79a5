"""One run: its place, its line in the plan, and its record from what its worker reported."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rnnbench.records import bounds, timestamps
from rnnbench.records.record import Reason, Record, RoundFacts
from rnnbench.records.run import Run
from rnnbench.running import assemble, verdict
from rnnbench.running.card_use import card_use
from rnnbench.running.device import device_reasons
from rnnbench.running.supervise import Event, Outcome
from rnnbench.running.turns import turns


@dataclass(frozen=True)
class Place:
    """The place of a run: the project's root, its results folder, the site, the experiment, and the
    file whose lock allows only one process on this host to time runs."""

    root: Path
    results: Path
    site: str
    experiment: str
    timing_lock: Path

    @property
    def folder(self) -> Path:
        return self.results / self.site / self.experiment

    def pointer(self, name: str) -> Path:
        return self.folder / f"{name}.json"


def timing_lock() -> Path:
    """The lock file of this host, regardless of the user's temporary folder."""
    path = os.environ.get("RNNBENCH_TIMING_LOCK", "/tmp/rnnbench-timing.lock")
    return Path(os.path.expandvars(path))


def assembled(
    planned: Run,
    place: Place,
    hardware: Mapping[str, Any],
    started: str,
    outcome: Outcome,
    finished: str | None = None,
    log_tail: str = "",
    ran_out: bool = False,
    round_: RoundFacts | None = None,
    asleep: Mapping[str, float] | None = None,
    disturbed: Collection[int] = (),
) -> Record:
    """The record of a worker that has ended, successfully or not (see `failure_reason`).

    **Arguments:**

    - `log_tail`, `ran_out`: see `failure_reason`.
    - `round_`: the record's ``round``.
    - `asleep`: the CPU time it used while others had their turns (`turns.asleep`).
    - `disturbed`: the cycles in which other processes used the cores (`turns.disturbed_in`).
    """
    events: list[Event] = outcome.events
    phases, epochs = assemble.phases_of(events), assemble.epochs_of(events)
    measured = {
        **assemble.facts_of(events, "measured"),
        "closure": verdict.closure(phases, epochs),
        "wall_seconds": assemble.wall_seconds(events) if events else None,
        "garbage_lines": outcome.garbage,
        "asleep": dict(asleep) if asleep else None,
    }
    measured = bounds.fitting(measured | card_use(events, epochs), bounds.MEASURED)
    machine_facts = {**hardware, **assemble.facts_of(events, "hardware")}
    taken = turns(events, outcome.turns)
    device = device_reasons(planned.config["device"], measured, machine_facts)
    failure = verdict.failure_reason(outcome, log_tail, ran_out)
    if failure is None and not any(event["event"] == "finished" for event in events):
        failure = Reason("died", f"ended early in phase {outcome.phase}", "see the run's log.")
    return Record(
        run=planned,
        experiment=place.experiment,
        site=place.site,
        machine=hardware["machine"],
        started=started,
        finished=finished or timestamps.now(),
        environment=assemble.facts_of(events, "environment"),
        hardware=machine_facts,
        phases=phases,
        epochs=epochs,
        measured=measured,
        verdict=verdict.judge(
            phases,
            epochs,
            measured,
            failure,
            device,
            [cycle in disturbed for cycle in taken["cycle"]],
        ),
        round=round_,
        turns=taken,
    )


def progress_label(order: int, total: int, name: str) -> str:
    width = len(str(total))
    return f"[{order + 1:{width}}/{total}] {name}"
