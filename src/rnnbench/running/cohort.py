"""Measures cohorts: runs that are alive at the same time, from their processes to their records."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from rnnbench.errors import RecordError, RunError
from rnnbench.records import timestamps
from rnnbench.records.record import Record
from rnnbench.records.run import Run
from rnnbench.records.store import pointer_to, read_json, record_files, record_folder, write_json
from rnnbench.running import attempt, slurm, worker
from rnnbench.running.progress import Progress, print_progress
from rnnbench.running.revision import revision
from rnnbench.running.supervise import Outcome, supervise
from rnnbench.running.train import Place, Trained, records_of
from rnnworker import machine
from rnnworker.cohorts import must_retry_alone, starting_order


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
        code, job = revision(), slurm.job()
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
        again = [r for r in cohort if must_retry_alone(r.as_dict(), outcomes[r.name], cohort)]
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
