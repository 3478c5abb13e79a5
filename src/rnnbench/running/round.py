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
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from rnnbench import locks
from rnnbench.builds.environments import prepare
from rnnbench.errors import RecordError, RunError
from rnnbench.records import timestamps
from rnnbench.records.record import Reason, Record, Run, Verdict
from rnnbench.records.rounds import as_planned, records_at
from rnnbench.records.store import UNREADABLE, Place, read_json, record_files, write_record
from rnnbench.running import attempt, worker
from rnnbench.running.assemble import Trained, records_of
from rnnbench.running.progress import Progress, print_progress
from rnnbench.running.refusals import refusals
from rnnbench.running.verdict import LESS_MEMORY
from rnnbench.running.worker import Event, Facts, Outcome, revision, supervise
from rnnworker import cards, machine
from rnnworker.cohorts import cohorts, must_retry_alone, starting_order, takes_turns
from rnnworker.forked_workers import Importers
from rnnworker.rounds import Share
from rnnworker.workers import card_of


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
    builds = {run.config["build"]["name"]: run.config["build"] for run in planned}
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
        runner = CohortRunner(
            place,
            check,
            label,
            name,
            hardware,
            pinned_md5 or {},
            timing,
            share,
            importers,
        )
        return runner.complete(planned, refused, reference)


def nothing_to_measure(experiment: str) -> str:
    """What to say of rounds that are complete."""
    return f"every run is already measured; to repeat one: rnnbench retry {experiment} NAME"


def _card(runs: Sequence[Run]) -> Facts | None:
    """Facts about the card on which `runs` are to take turns; None if they need no card or the
    driver does not tell."""
    for run in runs:
        if not takes_turns(run.config):
            continue
        card = card_of(run.config)
        if card:
            return cards.query_contexts(card)
    return None


@dataclass(frozen=True)
class CohortRunner:
    """Measures cohorts of a round on this machine.

    - `name`: the round's.
    - `hardware`: this machine's fingerprint.
    - `timing`: the descriptor of the host's timing lock, which is held.

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

    def folder(self, run: Run) -> Path:
        """The folder of the run's records on this machine."""
        machine: str = self.hardware["machine"]
        return self.place.results / "records" / machine / run.name

    def peaks(self, planned: Sequence[Run]) -> list[int]:
        """Peak bytes of memory of the latest run of each planned configuration on this machine.

        There is none for a configuration that was never measured, or whose record is damaged.
        """
        peaks = []
        for run in planned:
            pattern = f"{glob.escape(run.configuration)}-s*-r*"
            found = record_files(self.place.results, self.hardware["machine"], pattern)
            # The pattern matches `…-s0-r0` of a configuration with further overrides, too.
            name = re.compile(re.escape(run.configuration) + r"-s\d+-r\d+")
            files = {file.name: file for file in found if name.fullmatch(file.parent.name)}
            with suppress(RecordError, KeyError, TypeError, ValueError):
                latest = read_json(files[max(files)])
                peaks.append(int(latest["measured"]["peak_memory_bytes"]))
        return peaks

    def complete(
        self,
        planned: Sequence[Run],
        refused: Mapping[str, Reason],
        reference: str | None,
    ) -> dict[str, Record]:
        """Adopts the records that exist, writes those of refused runs, and measures the others.

        If the reference has no record, runs that have one are measured again with it.

        - `planned`: the runs of the round.
        - `refused`: run → why it is not trained.
        - `reference`: name of the run that the others are compared with, or None.

        Returns run → record.
        """
        records = {}
        for record in adoptable_records(planned, self.place):
            if not record.is_companion:
                records[record.name] = record
        by_name = {run.name: run for run in planned}
        compared = None
        if reference in by_name.keys() - refused:
            compared = by_name[reference].as_dict()
            if reference not in records:
                # Only runs that are measured at the same time can be compared with it.
                for name, record in list(records.items()):
                    if record.verdict.status != "void":
                        del records[name]

        without = [run for run in planned if run.name not in records]
        missing = [run for run in without if run.name not in refused]
        if not without:
            print_progress(f"{self.label} {self.name}: {nothing_to_measure(self.place.experiment)}")

        for run in without:
            if run.name in refused:
                records |= self.refuse(run, refused[run.name])
        lines = [run.as_dict() for run in missing]
        groups = cohorts(
            lines,
            compared,
            self.peaks(missing),
            card=_card(missing),
        )
        for group in groups:
            # The reference is recorded once for itself; later it is the others' companion.
            requested = {run.name for run in missing if run.name not in records}
            cohort = [by_name[line["name"]] for line in group]
            records |= self.measure(cohort, requested)
        return records

    def refuse(self, run: Run, reason: Reason) -> dict[str, Record]:
        """Writes the void record of a run that is not trained.

        - `run`: as it is planned.
        - `reason`: why it is not trained.

        Returns run → record.
        """
        started = _start_timestamp(self.folder(run))
        place = self.place
        untrained = Trained(
            run=run,
            experiment=place.experiment,
            site=place.site,
            started=started,
            finished=started,
            hardware=self.hardware,
            outcome=Outcome(),
        )
        made = records_of([untrained], f"{self.name}/{started}")
        void = replace(made[run.name], verdict=Verdict("void", (reason,)))
        write_record(place.results, void)
        return {run.name: void}

    def measure(self, cohort: Sequence[Run], requested: set[str]) -> dict[str, Record]:
        """Measures a cohort, writes its records, and returns run → record.

        - `cohort`: its runs.
        - `requested`: names of the runs whose records are returned. The other runs are companions.

        A run that ran out of memory next to others is measured again on its own. Raises `RunError`
        as `rnnbench.running.round.measure`.
        """
        by_name = {run.name: run for run in cohort}
        order = starting_order([run.as_dict() for run in cohort])
        cohort = [by_name[line["name"]] for line in order]

        started = {run.name: _start_timestamp(self.folder(run)) for run in cohort}
        code = revision()
        outcomes = self._train(cohort, started)
        finished = timestamps.now()

        trained = []
        for run in cohort:
            trained.append(
                Trained(
                    run,
                    self.place.experiment,
                    self.place.site,
                    started[run.name],
                    finished,
                    self.hardware,
                    outcomes[run.name],
                )
            )

        identity = f"{self.name}/{min(started.values())}"
        companions = started.keys() - requested
        made = records_of(trained, identity, companions)
        # Out of memory next to others does not mean that the run needs too much on its own.
        again = []
        for run in cohort:
            if must_retry_alone(run.config, outcomes[run.name], len(cohort)):
                made.pop(run.name, None)
                if run.name in requested:
                    again.append(run)

        records = self._write(made.values(), code)
        for run in again:
            print_progress(f"{self.label} {run.name} ran out of memory; retrying it on its own")
            records |= self.measure([run], requested)

        killed = [run.name for run in cohort if outcomes[run.name].is_killed]
        if killed:
            what = f"received an external SIGKILL in phase {outcomes[killed[0]].phase}."
            remedy = f"run the same command again; if memory ran out, {LESS_MEMORY}."
            raise RunError(what, where=", ".join(killed), remedy=remedy)
        return records

    def _write(self, made: Iterable[Record], code: str) -> dict[str, Record]:
        """Writes the records of a cohort, companions included.

        - `made`: the records.
        - `code`: the revision of the worker's code, which they get.

        Returns run → record, without companions.
        """
        records = {}
        slurm = attempt.slurm_job()
        # Companions first, so that they exist once a record can be adopted.
        for record in sorted(made, key=lambda record: not record.is_companion):
            measured = {**record.measured, "revision": code}
            if slurm:
                measured["job"] = {**slurm, "log": f"records/{record.key}.log"}
            complete = replace(record, measured=measured)
            write_record(self.place.results, complete)
            if not record.is_companion:
                records[record.name] = complete
        return records

    def _train(self, cohort: Sequence[Run], started: Mapping[str, str]) -> dict[str, Outcome]:
        """Starts the workers of the `cohort`, in this order, and supervises them until they end.

        `started`: run → its timestamp, which names its files. Returns run → outcome.
        """
        root = self.place.root
        epochs = {run.name: int(run.config["model"].get("epochs", 0)) for run in cohort}
        unread = set(epochs)

        def on_event(run: Run, event: Event) -> None:
            if event["event"] == "gate" and run.name in unread:
                unread.remove(run.name)
                self.check()
            progress.reached(run.name, event)

        members = []
        for number, run in enumerate(cohort):
            job = worker.job_of(
                run.config,
                root,
                pinned_md5=self.pinned_md5.get(run.name),
                place=number,
            )
            member = worker.member(
                run.name,
                job,
                root,
                self.folder(run) / started[run.name],
                limits=run.config.get("limits") or {},
                timing=self.timing,
                on_event=partial(on_event, run),
            )
            members.append(member)

        seed = zlib.crc32(f"{self.name} {started}".encode())
        with Progress(self.label, epochs) as progress:
            outcomes = supervise(members, seed, self.share, self.importers)
        if unread:  # they failed early
            self.check()
        return outcomes


def _start_timestamp(folder: Path) -> str:
    """The current time as a timestamp that sorts after every earlier one in `folder`.

    It does so even if the clock has been set back.
    """
    earlier = [path.name.split(".")[0] for path in folder.glob("2*")]
    latest = max(earlier, default="")
    now = timestamps.now()
    if now > latest:
        return now
    return timestamps.later(latest)


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
