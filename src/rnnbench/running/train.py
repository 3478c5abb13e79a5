"""One run, from its line in the plan to its record and pointer."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import rnnworker
from rnnbench import locks
from rnnbench.builds.launcher import environment as build_environment
from rnnbench.builds.launcher import launcher
from rnnbench.errors import RecordError, RunError
from rnnbench.records import stamp
from rnnbench.records.record import Reason, Record
from rnnbench.records.store import read_record, record_folder, write_json
from rnnbench.running import affinity, assemble, verdict
from rnnbench.running.progress import Epochs, say
from rnnbench.running.supervise import Event, Outcome, supervise
from rnnworker import machine

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "GOTO_NUM_THREADS",
)
SIGKILLED = -9


@dataclass(frozen=True)
class Place:
    """Where a run happens: the project's root, its results folder, the site's name, the
    experiment, and the file whose lock lets one process on this host time."""

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
    """One file per host, whatever the user's temporary folder is."""
    return Path(os.environ.get("RNNBENCH_TIMING_LOCK", "/tmp/rnnbench-timing.lock"))


def train(planned: Mapping[str, Any], place: Place, *, label: str, mirror=None) -> Record:
    """Measures the run that `planned` (a line of the plan) describes, or adopts the record
    that an interrupted earlier attempt left. Writes record and pointer.

    Raises `RunError` where no record could be made: killed from outside, a disk that is
    full, a folder that cannot be written.
    """
    name = planned["name"]
    hardware = machine.fingerprint()
    folder = record_folder(place.results, hardware["machine"], name)
    holder = f"process {os.getpid()}, {name} of {place.root}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (
            locks.locked(folder / ".lock", holder, _waiting(label, "for another attempt at it")),
            locks.locked(
                place.timing_lock, holder, _waiting(label, "for this host to finish timing")
            ) as timing,
        ):
            record = _finished_before(planned, place, folder)
            if record is None:
                record = _measure(planned, place, folder, hardware, timing, label, mirror)
            write_json(
                place.pointer(name),
                {
                    "record": str(Path("records") / record.machine / name / record.started)
                    + ".json",
                    "digest": record.digest,
                    "verdict": record.verdict.status,
                    "wall_seconds": record.measured.get("wall_seconds"),
                },
            )
    except OSError as error:
        raise RunError(
            f"{name} could not be recorded: {error}.",
            where=str(place.results),
            remedy="free or unlock the results folder and run the same command again.",
        ) from error
    return record


def _measure(planned, place, folder, hardware, timing, label, mirror) -> Record:
    name, config = planned["name"], planned["config"]
    started = _stamp(folder)
    cores = affinity.choose(affinity.read_topology(), config["device"].get("threads"))
    dataset = config["dataset"].get("path")
    job = {
        "config": config,
        "threads": len(cores),
        "cores": list(cores),
        "dataset": str(place.root / dataset) if dataset else None,
        "parent": os.getpid(),
    }
    job_file = folder / f"{started}.job.json"
    write_json(job_file, job)
    worker = Path(rnnworker.__file__).parent
    live = mirror(planned, f"{hardware['machine']}/{name}/{started}") if mirror else None
    epochs = Epochs(label, config["model"].get("epochs", 0))
    outcome = supervise(
        [*launcher(config["build"], place.root), str(worker), str(job_file)],
        environment=worker_environment(os.environ, config, len(cores)),
        log=folder / f"{started}.log",
        events_file=folder / f"{started}.events.jsonl",
        limits=config.get("limits") or {},
        inherit=(timing,),
        on_event=epochs,
        on_handshake=live or (lambda events: None),
    )
    job_file.unlink(missing_ok=True)
    if outcome.exit_code == SIGKILLED and not outcome.over_limit:
        raise RunError(
            f"was killed from outside in phase {outcome.phase}.",
            where=name,
            remedy="run the same command again; if memory ran out, choose a smaller batch.",
        )
    record = assembled(planned, place, hardware, started, outcome)
    write_json(folder / f"{started}.json", record.to_json())
    return record


def assembled(
    planned: Mapping[str, Any], place: Place, hardware: dict, started: str, outcome: Outcome
) -> Record:
    """The record of a worker that has ended, whatever it reported."""
    events: list[Event] = outcome.events
    phases, epochs = assemble.phases_of(events), assemble.epochs_of(events)
    measured = {
        **assemble.facts_of(events, "measured"),
        "closure": verdict.closure(epochs),
        "wall_seconds": assemble.wall_seconds(events) if events else None,
        "garbage_lines": outcome.garbage,
    }
    failure = verdict.failure_reason(events, outcome.exit_code, outcome.phase, outcome.over_limit)
    if failure is None and not any(event["event"] == "finished" for event in events):
        failure = Reason("died", f"ended in phase {outcome.phase}", "look at the run's log.")
    return Record(
        name=planned["name"],
        experiment=place.experiment,
        site=place.site,
        machine=hardware["machine"],
        started=started,
        finished=stamp.now(),
        choices=planned["choices"],
        overrides=planned["overrides"],
        seed=planned["seed"],
        repeat=planned["repeat"],
        alias=planned["alias"],
        block=planned["block"],
        order=planned["order"],
        digest=planned["digest"],
        identity=planned["identity"],
        config=planned["config"],
        environment=assemble.facts_of(events, "environment"),
        hardware={**hardware, **assemble.facts_of(events, "hardware")},
        phases=phases,
        epochs=epochs,
        measured=measured,
        verdict=verdict.judge(phases, epochs, measured, failure),
    )


def worker_environment(
    environment: Mapping[str, str], config: Mapping[str, Any], threads: int
) -> dict[str, str]:
    """The worker's environment: ours, without the thread counts that Snakemake exports and
    without what leads Python to our packages; then the config's own."""
    kept = {
        name: value
        for name, value in environment.items()
        if name not in (*THREAD_VARIABLES, "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
        and not name.startswith(("MLFLOW_", "SNAKEMAKE_"))
    }
    kept["OMP_NUM_THREADS"] = str(threads)
    kept["PYTHONUNBUFFERED"] = "1"
    return {**kept, **build_environment(config["build"])}


def _finished_before(planned: Mapping[str, Any], place: Place, folder: Path) -> Record | None:
    """The record of this very run that was written without its pointer, unless somebody has
    asked since (``rnnbench retry``) to measure it again."""
    retry = place.folder / "retry" / planned["name"]
    since = retry.read_text().strip() if retry.exists() else ""
    for path in sorted(folder.glob("2*.json"), reverse=True):
        if path.name.endswith(".job.json") or path.stem <= since:
            continue
        try:
            record = read_record(path)
        except RecordError as error:
            aside = path.with_suffix(".unreadable")
            path.rename(aside)
            say(f"rnnbench: {error} It is set aside as {aside.name}.")
            continue
        if (record.experiment, record.digest) == (place.experiment, planned["digest"]):
            return replace(record, block=planned["block"], order=planned["order"])
    return None


def read_plan_line(plan: Path, name: str) -> tuple[dict[str, Any], int]:
    """The line of `name` in the plan, and how many runs the plan has."""
    wanted = f'{{"name": {json.dumps(name)},'
    found, count = None, 0
    try:
        with plan.open(encoding="utf-8") as file:
            for line in file:
                count += 1
                if line.startswith(wanted):
                    found = json.loads(line)
    except OSError as error:
        raise RunError(f"cannot be read: {error}.", where=str(plan)) from error
    if found is None:
        raise RunError(f"has no run {name}.", where=str(plan), remedy="start it through snakemake.")
    return found, count


def _waiting(label: str, what: str):
    def on_wait(holder: str) -> None:
        say(f"{label}  waiting {what} ({holder or 'unknown holder'})")

    return on_wait


def _stamp(folder: Path) -> str:
    """The start as a file name that sorts after every earlier one, also when the clock has
    been set back."""
    latest = max((path.name.split(".")[0] for path in folder.glob("2*.json")), default="")
    moment = stamp.now()
    return moment if moment > latest else stamp.later(latest)


def main_label(order: int, total: int, name: str) -> str:
    width = len(str(total))
    return f"[{order + 1:{width}}/{total}] {name}"
