"""Measures the runs of a round in turns, from their lines in the plan to their records.

If a member's record exists already, it is adopted. If the reference's record exists but other
members' do not, the reference is measured with them again as their companion, because only runs
measured at the same time can be compared.
"""

from __future__ import annotations

import glob
import os
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from rnnbench import locks
from rnnbench.builds.environments import prepare
from rnnbench.errors import RecordError, RunError
from rnnbench.records import timestamps
from rnnbench.records.record import Record, Run
from rnnbench.records.store import (
    companion_files,
    pointer_is_valid,
    pointer_to,
    read_json,
    read_record,
    record_files,
    record_folder,
    write_json,
)
from rnnbench.running import attempt, worker
from rnnbench.running.assemble import Place, Trained, records_of
from rnnbench.running.progress import Progress, print_progress
from rnnbench.running.revision import revision
from rnnbench.running.worker import Outcome, supervise
from rnnworker import cards, machine
from rnnworker.cohorts import cohorts, must_retry_alone, starting_order, takes_turns
from rnnworker.workers import card_of


def measure(
    planned: Sequence[Run],
    place: Place,
    *,
    label: str,
    name: str = "",
    reference: str | None = None,
    pinned_md5: Mapping[str, str | None] | None = None,
) -> dict[str, Record]:
    """Measures the runs that `planned` (lines of the plan) describes in turns, or adopts records of
    earlier attempts. Writes records and pointers. Returns run → record.

    **Arguments:**

    - `label`: the prefix of its messages.
    - `name`: of the round.
    - `reference`: the name of the run that the others are compared with.
    - `pinned_md5`: run → the md5 of the dataset from which its worker may load pickles.

    Raises `RunError` if a record could not be made: the worker received an external SIGKILL, the
    disk is full, or a folder cannot be written. Records of the other runs are kept.
    """
    runner = CohortRunner(place, label, name or planned[0].name, pinned_md5 or {})
    holder = f"process {os.getpid()}, {runner.name} of {place.root}"
    # Snakemake has made the environments; damage is repaired here, before anything is timed.
    builds = {run.config["build"]["name"]: run.config["build"] for run in planned}
    for build in builds.values():
        prepare(build, place.root, lambda message: print_progress(f"{label}  {message}"))
    try:
        for run in planned:
            runner.folder(run).mkdir(parents=True, exist_ok=True)
        with ExitStack() as held:
            attempts = {
                run.name: held.enter_context(
                    attempt.held(
                        place.folder / "attempts" / run.name,
                        _waiting(label, f"for another attempt at {run.name}"),
                    )
                )
                for run in sorted(planned, key=lambda run: run.name)
            }
            timing = held.enter_context(
                locks.locked(
                    place.timing_lock, holder, _waiting(label, "for this host to finish timing")
                )
            )
            records = {}
            for run in planned:
                if record := existing_record(run, place, runner.folder(run)):
                    records[run.name] = record
                    _point_to(record, place)
            missing = [run for run in planned if run.name not in records]
            by_name = {run.name: run for run in planned}
            groups = cohorts(
                [run.as_dict() for run in missing],
                by_name[reference].as_dict() if reference in by_name else None,
                runner.peaks(planned),
                card=_card(missing),
            )
            for cohort in ([by_name[line["name"]] for line in group] for group in groups):
                # The reference is recorded once for itself; later it is the others' companion.
                requested = {run.name for run in missing if run.name not in records}
                records |= runner.measure(cohort, timing, attempts, requested)
    except OSError as error:
        raise RunError(
            f"{runner.name} could not be recorded: {error}.",
            where=str(place.results),
            remedy="make the results folder writable, with free space, and run the same command "
            "again.",
        ) from error
    return records


def _card(runs: Sequence[Run]) -> Mapping[str, Any] | None:
    """Facts about the card on which `runs` are to take turns; None if they need no card."""
    configs = (run.config for run in runs if takes_turns(run.config))
    on_gpu = next((config for config in configs if config["device"].get("kind") == "gpu"), None)
    return cards.query_contexts(card_of(on_gpu)) if on_gpu else None


def _point_to(record: Record, place: Place) -> None:
    """Writes the pointer to an existing record, unless it is valid already. It names the companions
    whose records exist."""
    pointer = place.pointer(record.name)
    with suppress(RecordError, AttributeError):
        is_named = read_json(pointer).get("record") == f"records/{record.key}.json"
        if is_named and pointer_is_valid(place.results, pointer):
            return
    write_json(pointer, pointer_to(record, companion_files(place.results, record)))


def _waiting(label: str, what: str):
    def on_wait(holder: str) -> None:
        print_progress(f"{label}  waiting {what} ({holder or 'unknown holder'})")

    return on_wait


class CohortRunner:
    """Measures cohorts of the round `name`. For the arguments see `round.measure`."""

    def __init__(
        self,
        place: Place,
        label: str,
        name: str,
        pinned_md5: Mapping[str, str | None],
    ):
        self.place, self.label, self.name = place, label, name
        self.pinned_md5 = pinned_md5
        self.hardware = machine.fingerprint()

    def folder(self, run: Run) -> Path:
        return record_folder(self.place.results, self.hardware["machine"], run.name)

    def peaks(self, planned: Sequence[Run]) -> list[int]:
        """Peak bytes of memory of the latest run of each configuration on this machine."""
        peaks = []
        for run in planned:
            files = record_files(
                self.place.results,
                self.hardware["machine"],
                f"{run.configuration}-s*-r*",
            )
            with suppress(RecordError, KeyError, TypeError, ValueError):
                latest = read_json(max(files, key=lambda file: file.name))
                peaks.append(int(latest["measured"]["peak_memory_bytes"]))
        return peaks

    def measure(
        self,
        cohort: Sequence[Run],
        timing: int,
        attempts: Mapping[str, attempt.Attempt],
        requested: set[str],
    ) -> dict[str, Record]:
        """Measures the `cohort`, writes records and pointers, and returns the records of the
        `requested` runs. The other runs are companions, whose pointers are not changed."""
        by_name = {run.name: run for run in cohort}
        order = starting_order([run.as_dict() for run in cohort])
        cohort = [by_name[line["name"]] for line in order]
        started = {run.name: _start_timestamp(self.folder(run)) for run in cohort}
        files = {run.name: self.folder(run) / started[run.name] for run in cohort}
        progress = Progress(self.label, {run.name: _epochs(run) for run in cohort})
        code, job = revision(), attempt.slurm_job()
        members = [
            worker.member(
                run.name,
                worker.job_of(
                    run.config,
                    self.place.root,
                    pinned_md5=self.pinned_md5.get(run.name),
                    place=number,
                ),
                self.place.root,
                files[run.name],
                timing=timing,
                limits=run.config.get("limits") or {},
                on_event=progress.of(run.name),
            )
            for number, run in enumerate(cohort)
        ]
        outcomes = supervise(members, zlib.crc32(f"{self.name} {started}".encode()))
        for path in files.values():
            worker.remove_job_file(path)
        finished = timestamps.now()
        trained = [
            Trained(run, started[run.name], finished, self.hardware, outcomes[run.name])
            for run in cohort
        ]
        identity = f"{self.name}/{min(started.values())}"
        made = records_of(trained, self.place, identity, set(started) - requested)
        # Out of memory next to others does not mean that the run needs too much on its own.
        again = [r for r in cohort if must_retry_alone(r.config, outcomes[r.name], len(cohort))]
        complete = []
        for record in made.values():
            if record.name not in {run.name for run in again}:
                log = {"job": {**job, "log": f"records/{record.key}.log"}} if job else {}
                complete.append(
                    replace(record, measured={**record.measured, "revision": code, **log})
                )
        records = self._write(complete, attempts, requested)
        for run in again:
            if run.name in requested:
                why = "ran out of memory; retrying it on its own"
                print_progress(f"{self.label}  {run.name} {why}")
                records |= self.measure([run], timing, attempts, requested)
        if killed := [run for run in cohort if outcomes[run.name].is_killed]:
            raise _killed(killed, outcomes)
        return records

    def _write(
        self,
        made: Iterable[Record],
        attempts: Mapping[str, attempt.Attempt],
        requested: set[str],
    ) -> dict[str, Record]:
        """Writes records and pointers; returns the records of the `requested` runs. Companions are
        written first, so that they exist if a record is found without its pointer."""
        records: dict[str, Record] = {}
        companions: list[str] = []
        for record in sorted(made, key=lambda record: record.name in requested):
            if record.name not in requested:
                companions.append(f"records/{record.key}.json")
            elif attempts[record.name].is_current():
                records[record.name] = record
            else:
                raise _superseded(record.name)
            write_json(self.place.results / f"records/{record.key}.json", record.to_json())
        for name, record in records.items():
            write_json(self.place.pointer(name), pointer_to(record, companions))
        return records


def _epochs(run: Run) -> int:
    return int(run.config["model"].get("epochs", 0))


def _killed(runs: Iterable[Run], outcomes: Mapping[str, Outcome]) -> RunError:
    names = [run.name for run in runs]
    return RunError(
        f"received an external SIGKILL in phase {outcomes[names[0]].phase}.",
        where=", ".join(names),
        remedy="run the same command again; if memory ran out, choose a smaller batch.",
    )


def _superseded(name: str) -> RunError:
    """An attempt that was considered dead (its node had no network, its job was suspended) must not
    write records next to its successor's."""
    return RunError(
        "another attempt took over this run because this one did not renew its file in time; this "
        "attempt is not recorded.",
        where=name,
        remedy="nothing needs to be done: the other attempt's record counts.",
    )


def _start_timestamp(folder: Path) -> str:
    """The current time as a timestamp that sorts after every earlier one in `folder`, even if the
    clock has been set back."""
    latest = max((path.name.split(".")[0] for path in folder.glob("2*.json")), default="")
    now = timestamps.now()
    return now if now > latest else timestamps.later(latest)


def existing_record(planned: Run, place: Place, folder: Path) -> Record | None:
    """The record of the planned run that was written without a pointer, unless ``rnnbench retry``
    has requested since that the run be measured again.

    It is in `folder`, which is this machine's, or in the folder of another machine of the same
    site.
    """
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
        if _is_of(record, planned, place) and (is_own or record.site == place.site):
            return replace(record, run=planned)
    return None


def _is_of(record: Record, planned: Run, place: Place) -> bool:
    if record.is_companion:
        return False  # it belongs to another run's round
    return (record.experiment, record.run.digest) == (place.experiment, planned.digest)
