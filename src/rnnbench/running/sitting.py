"""Runs that live at the same time: their processes, from the start to their records."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from rnnbench.errors import RecordError, RunError
from rnnbench.grid.point import cell_of
from rnnbench.records import timestamps
from rnnbench.records.record import Record
from rnnbench.records.store import (
    pointer_to,
    read_json,
    record_files,
    record_folder,
    write_json,
)
from rnnbench.running import attempt, effects, memory, slurm, worker
from rnnbench.running.progress import Progress, say
from rnnbench.running.revision import revision
from rnnbench.running.supervise import SIGKILLED, Outcome, supervise
from rnnbench.running.train import Place, assembled
from rnnworker import machine
from rnnworker.rounds import starting_order

Planned = Mapping[str, Any]
Mirror = Callable[[Planned, str], Callable]


class Sitting:
    """Runs that live at the same time, once."""

    def __init__(
        self,
        place: Place,
        label: str,
        name: str,
        mirror: Mirror | None,
        pinned_md5: Mapping[str, str | None],
    ):
        self.place, self.label, self.name = place, label, name
        self.mirror, self.pinned_md5 = mirror, pinned_md5
        self.hardware = machine.fingerprint()

    def folder(self, run: Planned) -> Path:
        return record_folder(self.place.results, self.hardware["machine"], run["name"])

    def peaks(self, planned: Sequence[Planned]) -> list[int]:
        """What the last run of each cell here needed of memory at most, in bytes."""
        found = []
        for run in planned:
            files = record_files(
                self.place.results, self.hardware["machine"], f"{cell_of(run['name'])}-s*-r*"
            )
            with suppress(RecordError, KeyError, TypeError, ValueError):
                latest = read_json(max(files, key=lambda file: file.name))
                found.append(int(latest["measured"]["peak_memory_bytes"]))
        return found

    def sit(
        self,
        group: Sequence[Planned],
        timing: int,
        mine: Mapping[str, attempt.Attempt],
        asked: set[str],
    ) -> dict[str, Record]:
        """Measures `group` and writes records and pointers. Those not `asked` for are companions,
        whose pointers stay."""
        group = starting_order(group)
        started = {run["name"]: _stamp(self.folder(run)) for run in group}
        files = {run["name"]: self.folder(run) / started[run["name"]] for run in group}
        progress = Progress(self.label, {run["name"]: _epochs(run) for run in group})
        code, killed_before = revision(), memory.kills()
        members = [
            worker.member(
                run["name"],
                worker.job_of(
                    run["config"],
                    self.place.root,
                    pinned_md5=self.pinned_md5.get(run["name"]),
                    place=number,
                ),
                self.place.root,
                files[run["name"]],
                timing=timing,
                limits=run["config"].get("limits") or {},
                on_event=progress.of(run["name"]),
                on_handshake=self._live(run, started[run["name"]]),
            )
            for number, run in enumerate(group)
        ]
        began = time.monotonic()
        outcomes = supervise(members, zlib.crc32(f"{self.name} {started}".encode()))
        share = (time.monotonic() - began) / len(group)
        for path in files.values():
            worker.done(path)
        ran_out = killed_before is not None and memory.kills() != killed_before
        about = self._round(group, outcomes, min(started.values()), asked)
        slept = effects.asleep(
            {name: one.turns for name, one in outcomes.items()},
            {name: one.events for name, one in outcomes.items()},
        )
        made: list[Record] = []
        killed: list[Planned] = []
        alone: list[Planned] = []
        for run in group:
            name = run["name"]
            outcome = outcomes[name]
            from_outside = outcome.exit_code == SIGKILLED and not outcome.over_limit
            if from_outside and not (ran_out and len(group) == 1):
                (alone if ran_out else killed).append(run)
                continue
            record = self._recorded(run, started[name], outcome, about[name], slept[name], ran_out)
            measured = {**record.measured, "revision": code, "wall_seconds": share}
            record = replace(record, measured=measured)
            if len(group) > 1 and _for_memory(record):
                alone.append(run)
                continue
            made.append(record)
        records = self._write(made, mine, asked)
        # ReportInputs others it has shown nothing about itself.
        for run in alone:
            if run["name"] in asked:
                say(f"{self.label}  {run['name']} ran out of memory beside the others; now alone")
                records |= self.sit([run], timing, mine, asked)
        if killed:
            raise _killed(killed, outcomes)
        return records

    def _write(
        self, made: Iterable[Record], mine: Mapping[str, attempt.Attempt], asked: set[str]
    ) -> dict[str, Record]:
        """Records and pointers; returns the runs that were `asked` for. Companions come first: who
        finds a record that has no pointer finds them too."""
        records: dict[str, Record] = {}
        companions: list[str] = []
        for record in sorted(made, key=lambda record: record.name in asked):
            if record.name not in asked:
                companions.append(f"records/{record.key}.json")
            elif mine[record.name].is_current():
                records[record.name] = record
            else:
                raise _taken_over(record.name)
            write_json(self.place.results / f"records/{record.key}.json", record.to_json())
        for name, record in records.items():
            write_json(self.place.pointer(name), pointer_to(record, companions))
        return records

    def _live(self, run: Planned, started: str) -> Callable:
        if self.mirror is None:
            return lambda events: None
        return self.mirror(run, f"{self.hardware['machine']}/{run['name']}/{started}")

    def _round(
        self,
        group: Sequence[Planned],
        outcomes: Mapping[str, Outcome],
        started: str,
        asked: set[str],
    ) -> dict[str, dict[str, Any]]:
        """Run → what its record says of its round."""
        turns = {name: effects.turns(one.events, one.turns) for name, one in outcomes.items()}
        found = effects.effects(turns) if len(group) > 1 else {}
        return {
            run["name"]: {
                "id": f"{self.hardware['machine']}/{self.name}/{started}",
                "members": [one["name"] for one in group],
                "companion": run["name"] not in asked,
                "effect": found.get(run["name"], (None, 0))[0],
                "cycles": found.get(run["name"], (None, 0))[1],
            }
            for run in group
        }

    def _recorded(
        self,
        run: Planned,
        started: str,
        outcome: Outcome,
        about: Mapping[str, Any],
        asleep: Mapping[str, float],
        ran_out: bool,
    ) -> Record:
        record = assembled(
            run,
            self.place,
            self.hardware,
            started,
            outcome,
            log_tail=memory.tail(self.folder(run) / f"{started}.log"),
            ran_out=ran_out,
            round_=about,
            asleep=asleep if len(about["members"]) > 1 else None,
        )
        if job_of_slurm := slurm.job():
            job = {**job_of_slurm, "log": f"records/{record.key}.log"}
            return replace(record, measured={**record.measured, "job": job})
        return record


def _epochs(run: Planned) -> int:
    return int(run["config"]["model"].get("epochs", 0))


def _for_memory(record: Record) -> bool:
    """Whether it ran out of memory, and not of its own limit of it."""
    limit = (record.config.get("limits") or {}).get("memory_bytes")
    return limit is None and any(r.code == "out_of_memory" for r in record.verdict.reasons)


def _killed(runs: Iterable[Planned], outcomes: Mapping[str, Outcome]) -> RunError:
    names = [run["name"] for run in runs]
    return RunError(
        f"was killed from outside in phase {outcomes[names[0]].phase}.",
        where=", ".join(names),
        remedy="run the same command again; if memory ran out, choose a smaller batch.",
    )


def _taken_over(name: str) -> RunError:
    """A process that was taken for dead (its node had no network, its job was suspended) must not
    write beside its successor."""
    return RunError(
        "was taken over by another attempt while this one gave no sign of life; this one is not "
        "recorded.",
        where=name,
        remedy="nothing: the other attempt's record stands.",
    )


def _stamp(folder: Path) -> str:
    """The start as a file name that sorts after every earlier one, also when the clock has
    been set back."""
    latest = max((path.name.split(".")[0] for path in folder.glob("2*.json")), default="")
    moment = timestamps.now()
    return moment if moment > latest else timestamps.later(latest)
