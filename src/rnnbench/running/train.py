"""One run: its place, its line in the plan, and its record from what its worker reported."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rnnbench.records import bounds
from rnnbench.records.record import Reason, Record, RoundFacts
from rnnbench.records.run import Run
from rnnbench.running import assemble, verdict
from rnnbench.running.card_use import card_use
from rnnbench.running.device import device_reasons
from rnnbench.running.supervise import Event, Outcome
from rnnbench.running.turns import asleep_in, disturbed_in, turns


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


@dataclass(frozen=True)
class Trained:
    """A run whose worker has ended: its line in the plan, its start and end (timestamps), the
    machine's `hardware`, and the `outcome`."""

    run: Run
    started: str
    finished: str
    hardware: Mapping[str, Any]
    outcome: Outcome


def records_of(
    cohort: Sequence[Trained], place: Place, identity: str, companions: Collection[str] = ()
) -> dict[str, Record]:
    """Run → its record, for the members of a cohort in starting order, whether they succeeded or
    not; those that received an external SIGKILL have none (see `failure_reason`).

    **Arguments:**

    - `identity`: of the round on its machine.
    - `companions`: names of the runs that were measured only for the ratios of the others.
    """
    outcomes = {each.run.name: each.outcome for each in cohort}
    disturbed, asleep = disturbed_in(outcomes), asleep_in(outcomes)
    records = {}
    for each in cohort:
        name, machine = each.run.name, each.hardware["machine"]
        facts = RoundFacts(
            id=f"{machine}/{identity}", members=tuple(outcomes), companion=name in companions
        )
        if not each.outcome.is_killed:
            waited = asleep[name] if facts.in_turns else None
            records[name] = assembled(each, place, facts, waited, disturbed)
    return records


def assembled(
    trained: Trained,
    place: Place,
    round_: RoundFacts | None = None,
    asleep: Mapping[str, float] | None = None,
    disturbed: Collection[int] = (),
) -> Record:
    """The record of one run.

    **Arguments:**

    - `round_`: the record's ``round``.
    - `asleep`: the CPU time it used while others had their turns (`turns.asleep_in`).
    - `disturbed`: the cycles in which other processes used the cores (`turns.disturbed_in`).
    """
    outcome = trained.outcome
    events: list[Event] = outcome.events
    phases, epochs = assemble.phases_of(events), assemble.epochs_of(events)
    measured = {
        **assemble.facts_of(events, "measured"),
        "closure": verdict.closure(phases, epochs),
        "wall_seconds": outcome.seconds,
        "garbage_lines": outcome.garbage,
        "asleep": dict(asleep) if asleep else None,
    }
    measured = bounds.fitting(measured | card_use(events, epochs), bounds.MEASURED)
    machine_facts = {**trained.hardware, **assemble.facts_of(events, "hardware")}
    taken = turns(events, outcome.turns)
    device = device_reasons(trained.run.config["device"], measured, machine_facts)
    failure = verdict.failure_reason(outcome)
    if failure is None and not any(event["event"] == "finished" for event in events):
        failure = Reason("died", f"ended early in phase {outcome.phase}", "see the run's log.")
    return Record(
        run=trained.run,
        experiment=place.experiment,
        site=place.site,
        machine=trained.hardware["machine"],
        started=trained.started,
        finished=trained.finished,
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
