"""One run, from its line in the plan to its record and pointer."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rnnbench import locks
from rnnbench.builds.environments import prepare
from rnnbench.errors import RunError
from rnnbench.records import stamp
from rnnbench.records.record import Reason, Record
from rnnbench.records.store import pointer_to, record_folder, write_json
from rnnbench.running import assemble, attempt, memory, slurm, verdict
from rnnbench.running.adopt import finished_before
from rnnbench.running.device import device_reasons
from rnnbench.running.progress import Epochs, say
from rnnbench.running.revision import revision
from rnnbench.running.supervise import SIGKILLED, Event, Outcome
from rnnbench.running.worker import job_of, work
from rnnworker import machine


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
    named = os.environ.get("RNNBENCH_TIMING_LOCK", "/tmp/rnnbench-timing.lock")
    return Path(os.path.expandvars(named))


def train(
    planned: Mapping[str, Any],
    place: Place,
    *,
    label: str,
    mirror=None,
    pinned_md5: str | None = None,
) -> Record:
    """Measures the run that `planned` (a line of the plan) describes, or adopts the record
    that an interrupted earlier attempt left. Writes record and pointer. The worker loads
    pickles only from a dataset whose bytes have `pinned_md5`.

    Raises `RunError` where no record could be made: killed from outside, a disk that is
    full, a folder that cannot be written.
    """
    name = planned["name"]
    hardware = machine.fingerprint()
    folder = record_folder(place.results, hardware["machine"], name)
    holder = f"process {os.getpid()}, {name} of {place.root}"
    # Snakemake has had it made; here damage is noticed, and mended before anything is timed.
    prepare(planned["config"]["build"], place.root, lambda words: say(f"{label}  {words}"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (
            attempt.held(
                place.folder / "attempts" / name, _waiting(label, "for another attempt at it")
            ) as mine,
            locks.locked(
                place.timing_lock, holder, _waiting(label, "for this host to finish timing")
            ) as timing,
        ):
            record = finished_before(planned, place, folder)
            if record is None:
                record = _measure(
                    planned, place, folder, hardware, timing, label, mirror, pinned_md5
                )
                _still_ours(mine, name)
                write_json(folder / f"{record.started}.json", record.to_json())
            write_json(
                place.pointer(name),
                pointer_to(record),
            )
    except OSError as error:
        raise RunError(
            f"{name} could not be recorded: {error}.",
            where=str(place.results),
            remedy="free or unlock the results folder and run the same command again.",
        ) from error
    return record


def _measure(planned, place, folder, hardware, timing, label, mirror, pinned_md5=None) -> Record:
    name, config = planned["name"], planned["config"]
    started, code = _stamp(folder), revision()
    job = job_of(config, place.root, pinned_md5=pinned_md5)
    live = mirror(planned, f"{hardware['machine']}/{name}/{started}") if mirror else None
    killed_before = memory.kills()
    outcome = work(
        job,
        place.root,
        folder / started,
        timing=timing,
        limits=config.get("limits") or {},
        on_event=Epochs(label, config["model"].get("epochs", 0)),
        on_handshake=live or (lambda events: None),
    )
    ran_out = killed_before is not None and memory.kills() != killed_before
    if outcome.exit_code == SIGKILLED and not outcome.over_limit and not ran_out:
        raise RunError(
            f"was killed from outside in phase {outcome.phase}.",
            where=name,
            remedy="run the same command again; if memory ran out, choose a smaller batch.",
        )
    log_tail = memory.tail(folder / f"{started}.log")
    record = assembled(
        planned, place, hardware, started, outcome, log_tail=log_tail, ran_out=ran_out
    )
    measured = {**record.measured, "revision": code}
    if job_of_slurm := slurm.job():
        measured["job"] = {**job_of_slurm, "log": f"records/{record.key}.log"}
    return replace(record, measured=measured)


def _still_ours(mine: attempt.Attempt, name: str) -> None:
    """A process that was taken for dead (its node had no network, its job was suspended) must
    not write beside its successor."""
    if not mine.is_current():
        raise RunError(
            "was taken over by another attempt while this one gave no sign of life; "
            "this one is not recorded.",
            where=name,
            remedy="nothing: the other attempt's record stands.",
        )


def assembled(
    planned: Mapping[str, Any],
    place: Place,
    hardware: Mapping[str, Any],
    started: str,
    outcome: Outcome,
    finished: str | None = None,
    log_tail: str = "",
    ran_out: bool = False,
) -> Record:
    """The record of a worker that has ended, whatever it reported (see `failure_reason`)."""
    events: list[Event] = outcome.events
    phases, epochs = assemble.phases_of(events), assemble.epochs_of(events)
    measured = {
        **assemble.facts_of(events, "measured"),
        "closure": verdict.closure(phases, epochs),
        "wall_seconds": assemble.wall_seconds(events) if events else None,
        "garbage_lines": outcome.garbage,
    }
    machine_facts = {**hardware, **assemble.facts_of(events, "hardware")}
    device = device_reasons(planned["config"]["device"], measured, machine_facts)
    failure = verdict.failure_reason(
        events, outcome.exit_code, outcome.phase, outcome.over_limit, log_tail, ran_out
    )
    if failure is None and not any(event["event"] == "finished" for event in events):
        failure = Reason("died", f"ended in phase {outcome.phase}", "look at the run's log.")
    return Record(
        name=planned["name"],
        experiment=place.experiment,
        site=place.site,
        machine=hardware["machine"],
        started=started,
        finished=finished or stamp.now(),
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
        hardware=machine_facts,
        phases=phases,
        epochs=epochs,
        measured=measured,
        verdict=verdict.judge(phases, epochs, measured, failure, device),
    )


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
