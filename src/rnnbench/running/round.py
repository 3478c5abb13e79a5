"""Measures the runs of a round in turns, from their lines in the plan to their records.

If a member's record exists already, it is adopted. If the reference's record exists but other
members' do not, the reference is measured with them again as their companion, because only runs
measured at the same time can be compared. A run whose certificate failed is not trained: its record
is void.
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
from typing import Any

from msgspec.structs import replace

from rnnbench import locks
from rnnbench.builds.environments import prepare
from rnnbench.errors import RecordError, RunError
from rnnbench.records import timestamps
from rnnbench.records.overrides import label as label_of
from rnnbench.records.pointer import Pointer, companion_files, is_valid
from rnnbench.records.record import NOT_CERTIFIED, Reason, Record, Run, Verdict
from rnnbench.records.store import (
    Place,
    read_json,
    read_record,
    record_files,
    write_json,
    write_record,
)
from rnnbench.running import attempt, worker
from rnnbench.running.assemble import Trained, records_of
from rnnbench.running.progress import Progress, print_progress
from rnnbench.running.verdict import LESS_MEMORY
from rnnbench.running.worker import Event, Outcome, revision, supervise
from rnnbench.sources.certificates import certificate_of
from rnnworker import cards, machine
from rnnworker.cohorts import cohorts, must_retry_alone, starting_order, takes_turns
from rnnworker.members import says_out_of_memory
from rnnworker.options import is_user_file
from rnnworker.workers import card_of


def measure(
    planned: Sequence[Run],
    place: Place,
    check: Callable[[], None] = lambda: None,
    *,
    label: str,
    reference: str | None = None,
    pinned_md5: Mapping[str, str | None] | None = None,
) -> dict[str, Record]:
    """Measures the `planned` runs in turns, or adopts records of earlier attempts. Writes records
    and pointers. Returns run → record.

    - `check`: called when a run has read its inputs, before it is timed; raises if they have
      changed since they were compared with the plan.
    - `label`: the prefix of its messages.
    - `reference`: the name of the run that the others are compared with.
    - `pinned_md5`: run → the md5 of the dataset from which its worker may load pickles.

    Raises `RunError` if a worker received an external SIGKILL, and `OSError` if something cannot be
    written. Records of the other runs are kept.
    """
    name, by_name = planned[0].round, {run.name: run for run in planned}
    hardware = machine.fingerprint()
    # Snakemake has made the environments; damage is repaired here, before anything is timed.
    builds = {run.config["build"]["name"]: run.config["build"] for run in planned}
    for build in builds.values():
        prepare(build, place.root, lambda message: print_progress(f"{label} {message}"))

    def waiting(what: str, holder: str) -> None:
        print_progress(f"{label} waiting for {what} ({holder or 'unknown holder'})")

    refused = refusals(planned, place)
    with ExitStack() as held:
        for each in sorted(by_name):
            wait = partial(waiting, f"another attempt at {each}")
            held.enter_context(attempt.held(place.folder / "attempts" / each, wait))
        holder = f"process {os.getpid()}, {name} of {place.root}"
        wait = partial(waiting, "this host to finish timing")
        timing = held.enter_context(locks.locked(place.timing_lock, holder, wait))
        runner = CohortRunner(place, check, label, name, hardware, pinned_md5 or {}, timing)
        records = {}
        for run in planned:
            if record := existing_record(run, place, runner.folder(run)):
                records[run.name] = record
                _point_to(record, place)
            elif run.name in refused:
                records |= runner.refuse(run, refused[run.name])
        missing = [run for run in planned if run.name not in records]
        groups = cohorts(
            [run.as_dict() for run in missing],
            by_name[reference].as_dict() if reference in by_name.keys() - refused else None,
            runner.peaks(missing),
            card=_card(missing),
        )
        for group in groups:
            # The reference is recorded once for itself; later it is the others' companion.
            requested = {run.name for run in missing if run.name not in records}
            records |= runner.measure([by_name[line["name"]] for line in group], requested)
    return records


def refusals(runs: Sequence[Run], place: Place) -> dict[str, Reason]:
    """Run → why it is not trained, for those whose certificate found their implementation wrong on
    their device. Not with ``measure.uncertified`` or ``build.as_published``, which ask for it all
    the same."""
    refused: dict[str, Reason] = {}
    with suppress(RecordError):
        certificates = read_json(place.folder / "certificates.json")
        for run in runs:
            config, planned = run.config, certificates.get(run.certificate or "")
            asked = config["measure"].get("uncertified") or config["build"].get("as_published")
            if planned and not asked and (why := _why_refused(run, planned, place)):
                refused[run.name] = why
    return refused


def _why_refused(run: Run, planned: Mapping[str, Any], place: Place) -> Reason | None:
    folder, key = place.folder / "certificates", str(run.certificate)
    try:
        made = certificate_of(read_json(folder / f"{key}.json"), key)
    except RecordError:
        return None
    rnn, device = (label_of(run.choices[axis], run.overrides, axis) for axis in ("rnn", "device"))
    entry = made.implementations.get(rnn)
    wrong = entry.wrong_on(device) if entry else None
    if entry is None or not wrong or made.digest != planned.get("digest"):
        return None
    if entry.status == "refused":
        remedy = f"measure without rnn={rnn}, or change the model."
        return Reason(NOT_CERTIFIED, f"refused: {wrong}", remedy)
    tried = [each["name"] for each in planned.get("devices", ())]
    # The first device tests the function too. Its log has no number.
    number = tried.index(device) if device in tried and not entry.function_why else 0
    log = folder / "work" / (f"{key}.{number}.log" if number else f"{key}.log")
    file = run.config["rnn"]["implementation"]
    whose, correct = f"rnn={rnn}", "correct the model, the data or the options"
    trains = " +measure.uncertified=true trains it all the same."
    rnns = {each["name"]: each["rnn"] for each in planned.get("implementations", ())}
    if fault := made.fault_of_all(rnns):
        whose, wrong, trains = "every implementation", fault, ""
        data = run.config["dataset"].get("path") or "made by the model"
        function = run.config["model"]["function"].rpartition(":")[0]
        correct = f"correct the model ({function}), the data ({data}) or the options"
        if says_out_of_memory(fault):
            correct = LESS_MEMORY
    elif says_out_of_memory(wrong):
        correct = LESS_MEMORY
    elif is_user_file(file):
        correct = f"correct {file} or its YAML (docs/own_kernel.md)"
    return Reason(
        NOT_CERTIFIED,
        f"not trained, because the certificate of {whose} failed: {wrong}",
        f"{correct}; {os.path.relpath(log, place.root)} has the details.{trains}",
    )


def _card(runs: Sequence[Run]) -> Mapping[str, Any] | None:
    """Facts about the card on which `runs` are to take turns; None if they need no card."""
    used = (card_of(run.config) for run in runs if takes_turns(run.config))
    return next(map(cards.query_contexts, filter(None, used)), None)


def _point_to(record: Record, place: Place) -> None:
    """Writes the pointer to an existing record, unless it is valid already. It names the companions
    whose records exist."""
    file, pointer = place.pointer(record.name), Pointer.of(record)
    with suppress(RecordError):
        if Pointer.read(file).record == pointer.record and is_valid(file, place.results):
            return
    write_json(file, Pointer.of(record, companion_files(place.results, record)))


@dataclass(frozen=True)
class CohortRunner:
    """Measures cohorts of the round `name` on this machine (`hardware`) while it holds the
    `timing` lock. For the rest see `measure`."""

    place: Place
    check: Callable[[], None]
    label: str
    name: str
    hardware: Mapping[str, Any]
    pinned_md5: Mapping[str, str | None]
    timing: int

    def folder(self, run: Run) -> Path:
        return self.place.results / "records" / self.hardware["machine"] / run.name

    def peaks(self, planned: Sequence[Run]) -> list[int]:
        """Peak bytes of memory of the latest run of each configuration on this machine; none for
        one that was never measured."""
        peaks = []
        for run in planned:
            pattern = f"{glob.escape(run.configuration)}-s*-r*"
            found = record_files(self.place.results, self.hardware["machine"], pattern)
            # The pattern matches `…-s0-r0` of a configuration with further overrides, too.
            name = re.compile(re.escape(run.configuration) + r"-s\d+-r\d+")
            files = [file for file in found if name.fullmatch(file.parent.name)]
            with suppress(RecordError, KeyError, TypeError, ValueError):
                latest = read_json(max(files, key=lambda file: file.name))
                peaks.append(int(latest["measured"]["peak_memory_bytes"]))
        return peaks

    def refuse(self, run: Run, reason: Reason) -> dict[str, Record]:
        """Writes the void record of a run that is not trained, and its pointer."""
        started = _start_timestamp(self.folder(run))
        of_all = (self.place.experiment, self.place.site)
        untrained = Trained(run, *of_all, started, started, self.hardware, Outcome())
        made = records_of([untrained], f"{self.name}/{started}")
        void = replace(made[run.name], verdict=Verdict("void", (reason,)))
        return self._write([void], {run.name})

    def measure(self, cohort: Sequence[Run], requested: set[str]) -> dict[str, Record]:
        """Measures the `cohort`, writes records and pointers, and returns the records of the
        `requested` runs. The other runs are companions, whose pointers are not changed."""
        by_name = {run.name: run for run in cohort}
        order = starting_order([run.as_dict() for run in cohort])
        cohort = [by_name[line["name"]] for line in order]
        started = {run.name: _start_timestamp(self.folder(run)) for run in cohort}
        files = {run.name: self.folder(run) / started[run.name] for run in cohort}
        epochs = {run.name: int(run.config["model"].get("epochs", 0)) for run in cohort}
        code, slurm = revision(), attempt.slurm_job()
        unread = set(by_name)

        def on_event(run: Run, event: Event) -> None:
            if event["event"] == "gate" and run.name in unread:
                unread.remove(run.name)
                self.check()
            progress.reached(run.name, event)

        members = []
        for number, run in enumerate(cohort):
            pinned, root = self.pinned_md5.get(run.name), self.place.root
            job = worker.job_of(run.config, root, pinned_md5=pinned, place=number)
            members.append(
                worker.member(
                    run.name, job, root, files[run.name], limits=run.config.get("limits") or {},
                    timing=self.timing, on_event=partial(on_event, run),
                )
            )  # fmt: skip
        with Progress(self.label, epochs) as progress:
            outcomes = supervise(members, zlib.crc32(f"{self.name} {started}".encode()))
        if unread:  # they failed early
            self.check()
        of_all = (self.place.experiment, self.place.site)
        finished = timestamps.now()
        trained = [
            Trained(run, *of_all, started[run.name], finished, self.hardware, outcomes[run.name])
            for run in cohort
        ]
        identity = f"{self.name}/{min(started.values())}"
        made = records_of(trained, identity, set(started) - requested)
        # Out of memory next to others does not mean that the run needs too much on its own.
        again = [r for r in cohort if must_retry_alone(r.config, outcomes[r.name], len(cohort))]
        for run in again:
            made.pop(run.name, None)
        for name, record in made.items():
            log = {"job": {**slurm, "log": f"records/{record.key}.log"}} if slurm else {}
            made[name] = replace(record, measured={**record.measured, "revision": code, **log})
        records = self._write(made.values(), requested)
        for run in again:
            if run.name in requested:
                why = "ran out of memory; retrying it on its own"
                print_progress(f"{self.label} {run.name} {why}")
                records |= self.measure([run], requested)
        if killed := [run.name for run in cohort if outcomes[run.name].is_killed]:
            what = f"received an external SIGKILL in phase {outcomes[killed[0]].phase}."
            remedy = f"run the same command again; if memory ran out, {LESS_MEMORY}."
            raise RunError(what, where=", ".join(killed), remedy=remedy)
        return records

    def _write(self, made: Iterable[Record], requested: set[str]) -> dict[str, Record]:
        """Writes records and pointers; returns the records of the `requested` runs. Companions are
        written first, so that they exist if a record is found without its pointer."""
        records: dict[str, Record] = {}
        companions: list[str] = []
        for record in sorted(made, key=lambda record: record.name in requested):
            if record.name in requested:
                records[record.name] = record
            else:
                companions.append(record.path)
            write_record(self.place.results, record)
        for name, record in records.items():
            write_json(self.place.pointer(name), Pointer.of(record, companions))
        return records


def _start_timestamp(folder: Path) -> str:
    """The current time as a timestamp that sorts after every earlier one in `folder`, even if the
    clock has been set back."""
    latest = max((path.name.split(".")[0] for path in folder.glob("2*.json")), default="")
    now = timestamps.now()
    return now if now > latest else timestamps.later(latest)


def existing_record(planned: Run, place: Place, folder: Path) -> Record | None:
    """The record of the planned run that was written without a pointer, unless ``rnnbench retry``
    has requested since that the run be measured again. It is in `folder`, which is this machine's,
    or in the folder of another machine of the same site."""
    retry = place.folder / "retry" / planned.name
    since = retry.read_text().strip() if retry.exists() else ""
    files = record_files(place.results, name=glob.escape(planned.name))
    for path in sorted(files, key=lambda path: (path.parent == folder, path.name), reverse=True):
        is_own = path.parent == folder
        if path.stem <= since:
            continue
        try:
            record = read_record(path)
        except RecordError as error:
            if is_own:  # otherwise it is left to the machine that owns the folder
                aside = path.rename(path.with_suffix(".unreadable"))
                print_progress(f"rnnbench: {error} It was set aside as {aside.name}.")
            continue
        is_same = (record.experiment, record.run.digest) == (place.experiment, planned.digest)
        # A companion belongs to another run's round.
        if is_same and not record.is_companion and (is_own or record.site == place.site):
            return replace(record, run=planned)
    return None
