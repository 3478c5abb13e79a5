"""Measures the runs of a round in turns, from their lines in the plan to their records.

If a member's record exists already, it is adopted. If the reference's record exists but other
members' do not, the reference is measured with them again as their companion, because only runs
measured at the same time can be compared. For the same reason, all members are measured again if
the reference's record does not exist. A run whose certificate failed is not trained: its record is
void.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from rnnbench import locks
from rnnbench.builds.environments import prepare
from rnnbench.builds.pins import build_of
from rnnbench.errors import RecordError, RunError
from rnnbench.records import timestamps
from rnnbench.records.record import Reason, Record, Run, Verdict
from rnnbench.records.rounds import as_planned, records_at
from rnnbench.records.store import UNREADABLE, Place, read_record, record_files, write_record
from rnnbench.running import attempt, worker
from rnnbench.running.assemble import Trained, records_of
from rnnbench.running.progress import Progress, print_progress
from rnnbench.running.refusals import refusals
from rnnbench.running.verdict import LESS_MEMORY
from rnnbench.running.worker import Event, Facts, Outcome, revision, supervise
from rnnworker import machine
from rnnworker.forked_workers import Importers
from rnnworker.json_types import Planned
from rnnworker.measuring import Measured, Measuring, start_stamp
from rnnworker.members import Member
from rnnworker.rounds import Share


def measure(
    planned: Sequence[Run],
    place: Place,
    check: Callable[[], None] = lambda: None,
    *,
    label: str,
    reference: str | None = None,
    pinned_md5: Mapping[str, str | None] | None = None,
    share: Share | None = None,
    importers: Importers | None = None,
) -> dict[str, Record]:
    """Measures the `planned` runs in turns, or adopts records of earlier attempts. Writes records.
    Returns run → record.

    - `planned`: the runs of one round.
    - `place`: of their experiment.
    - `check`: called when a run has read its inputs, before it is timed; raises if they have
      changed since they were compared with the plan.
    - `label`: the prefix of its messages.
    - `reference`: the name of the run that the others are compared with.
    - `pinned_md5`: run → the md5 of the dataset from which its worker may load pickles.
    - `share`: how long the turns of the round take in all.
    - `importers`: those of a loop over rounds.

    Raises `RunError` if a worker received an external SIGKILL, and `OSError` if something cannot be
    written. Records of the other runs are kept.
    """
    name = planned[0].round
    hardware = machine.fingerprint()
    # Snakemake has made the environments; damage is repaired here, before anything is timed.
    builds = {run.config["build"]["name"]: build_of(run.config["build"]) for run in planned}
    for build in builds.values():
        prepare(build, place.root, lambda message: print_progress(f"{label} {message}"))

    def waiting(what: str, holder: str) -> None:
        print_progress(f"{label} waiting for {what} ({holder or 'unknown holder'})")

    refused = refusals(planned, place)
    with ExitStack() as held:
        for each in sorted(run.name for run in planned):
            wait = partial(waiting, f"another attempt at {each}")
            held.enter_context(attempt.held(place.folder / "attempts" / each, wait))
        holder = f"process {os.getpid()}, {name} of {place.root}"
        wait = partial(waiting, "this host to finish timing")
        timing = held.enter_context(locks.locked(place.timing_lock, holder, wait))
        runner = LocalRound(
            place,
            check,
            label,
            name,
            hardware,
            pinned_md5 or {},
            timing,
            share,
            importers,
            refused,
            frozenset([reference] if reference else []),
        )
        return runner.records_of(planned)


def nothing_to_measure(experiment: str) -> str:
    """What to say of rounds that are complete."""
    return f"every run is already measured; to repeat one: rnnbench retry {experiment} NAME"


@dataclass
class LocalRound(Measuring):
    """Measures a round on this machine and keeps its records.

    - `name`: the round's.
    - `hardware`: this machine's fingerprint.
    - `timing`: the descriptor of the host's timing lock, which is held.
    - `refused`: run → why it is not trained.
    - `by_name`: its runs.
    - `records`: those that it has, and gets.
    - `code`: the revision of the worker's code when its last cohort began.

    For the rest see `measure`.
    """

    place: Place
    check: Callable[[], None]
    label: str
    name: str
    hardware: Facts
    pinned_md5: Mapping[str, str | None]
    timing: int
    share: Share | None = None
    importers: Importers | None = None
    refused: Mapping[str, Reason] = field(default_factory=dict)
    references: frozenset[str] = frozenset()
    by_name: dict[str, Run] = field(default_factory=dict)
    records: dict[str, Record] = field(default_factory=dict)
    code: str = ""

    def folder(self, name: str) -> Path:
        """The folder of a run's records on this machine."""
        machine: str = self.hardware["machine"]
        return self.place.results / "records" / machine / name

    def peaks(self, runs: Sequence[Planned]) -> list[int]:
        """Peak bytes of memory of the latest run of each planned configuration on this machine.

        There is none for a configuration that was never measured, or whose record is damaged.
        """
        peaks = []
        for line in runs:
            configuration = self.by_name[line["name"]].configuration
            pattern = f"{glob.escape(configuration)}-s*-r*"
            found = record_files(self.place.results, self.hardware["machine"], pattern)
            # The pattern matches `…-s0-r0` of a configuration with further overrides, too.
            name = re.compile(re.escape(configuration) + r"-s\d+-r\d+")
            files = {file.name: file for file in found if name.fullmatch(file.parent.name)}
            if not files:
                continue
            with suppress(RecordError):
                peak = read_record(files[max(files)]).measured.peak_memory_bytes
                if peak is not None:
                    peaks.append(peak)
        return peaks

    def records_of(self, planned: Sequence[Run]) -> dict[str, Record]:
        """Adopts the records that exist, writes those of refused runs, and measures the others.
        Returns run → record.

        `planned`: the runs of the round.
        """
        for record in adoptable_records(planned, self.place):
            if not record.is_companion:
                self.records[record.name] = record
        self.by_name.update((run.name, run) for run in planned)
        done = {name: each.verdict.status == "void" for name, each in self.records.items()}
        if done.keys() >= self.by_name.keys():
            print_progress(f"{self.label} {self.name}: {nothing_to_measure(self.place.experiment)}")
        self.complete([run.as_dict() for run in planned], done)
        return self.records

    def obstacle(self, run: Planned) -> Reason | None:
        return self.refused.get(run["name"])

    def skip(self, run: Planned, why: Reason) -> None:
        """Writes the void record of a run that is not trained."""
        name = run["name"]
        started = start_stamp(self.folder(name))
        trained = self._trained(name, started, started, Outcome())
        made = records_of([trained], f"{self.name}/{started}")
        void = replace(made[name], verdict=Verdict("void", (why,)))
        write_record(self.place.results, void)
        self.records[name] = void

    def member(self, run: Planned, started: str, place: int) -> Member:
        root = self.place.root
        job = worker.job_of(
            run["config"],
            root,
            pinned_md5=self.pinned_md5.get(run["name"]),
            place=place,
        )
        return worker.member(
            run["name"],
            job,
            root,
            self.folder(run["name"]) / started,
            limits=run["config"].get("limits") or {},
            timing=self.timing,
        )

    def supervise(self, members: Sequence[Member], seed: int) -> Mapping[str, Outcome]:
        """Runs the workers of a cohort, shows their progress, and has the inputs checked when each
        of them has read them."""
        self.code = revision()
        epochs = {}
        for member in members:
            model = self.by_name[member.name].config["model"]
            epochs[member.name] = int(model.get("epochs", 0))
        unread = set(epochs)

        def on_event(name: str, event: Event) -> None:
            if event["event"] == "gate" and name in unread:
                unread.remove(name)
                self.check()
            progress.reached(name, event)

        heard = [each._replace(on_event=partial(on_event, each.name)) for each in members]
        with Progress(self.label, epochs) as progress:
            outcomes = supervise(heard, seed, self.share, self.importers)
        if unread:  # they failed early
            self.check()
        return outcomes

    def keep(self, measured: Measured) -> set[str]:
        """Writes the records of a cohort, companions included. Raises `RunError` as `measure`."""
        finished = timestamps.now()
        trained = []
        for name, started in measured.started.items():
            trained.append(self._trained(name, started, finished, measured.outcomes[name]))
        made = records_of(trained, measured.identity, measured.companions)

        kept = set()
        slurm = attempt.slurm_job()
        # Companions first, so that they exist once a record can be adopted.
        for record in sorted(made.values(), key=lambda record: not record.is_companion):
            if record.name in measured.again:
                continue
            facts = {**record.facts, "revision": self.code}
            if slurm:
                facts["job"] = {**slurm, "log": f"records/{record.key}.log"}
            complete = replace(record, facts=facts)
            write_record(self.place.results, complete)
            if not record.is_companion:
                self.records[record.name] = complete
                kept.add(record.name)

        killed = [name for name in measured.started if measured.outcomes[name].is_killed]
        if killed:
            what = f"received an external SIGKILL in phase {measured.outcomes[killed[0]].phase}."
            remedy = f"run the same command again; if memory ran out, {LESS_MEMORY}."
            raise RunError(what, where=", ".join(killed), remedy=remedy)
        for name in sorted(measured.again - measured.companions):
            print_progress(f"{self.label} {name} ran out of memory; retrying it on its own")
        return kept

    def _trained(self, name: str, started: str, finished: str, outcome: Outcome) -> Trained:
        return Trained(
            run=self.by_name[name],
            experiment=self.place.experiment,
            site=self.place.site,
            started=started,
            finished=finished,
            hardware=self.hardware,
            outcome=outcome,
        )


def adoptable_records(planned: Sequence[Run], place: Place) -> list[Record]:
    """The records of the `planned` runs that were measured as planned, on any machine of the site,
    and the companions of their rounds.

    Unreadable records of this machine are set aside; others are left to the machine that owns them.
    """
    digests = {run.name: run.digest for run in planned}
    records, faults = records_at(place.folder, digests)

    here = machine.fingerprint()["machine"]
    for fault in faults:
        file = Path(fault.where)
        if file.parents[1].name == here:
            aside = file.rename(file.with_suffix(UNREADABLE))
            print_progress(f"rnnbench: {fault} It was set aside as {aside.name}.")
    return as_planned(records, digests)
