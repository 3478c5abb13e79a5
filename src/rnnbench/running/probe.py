"""One probe, from the plan to its file: the worker measures what the device can do."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import rnnworker
from rnnbench import locks
from rnnbench.builds.launcher import launcher
from rnnbench.errors import RunError
from rnnbench.records.store import write_json
from rnnbench.running import affinity, assemble, verdict
from rnnbench.running.device import device_reasons
from rnnbench.running.progress import say
from rnnbench.running.supervise import Event, Outcome, supervise
from rnnbench.running.train import SIGKILLED, Place, worker_environment
from rnnworker import machine

SCHEMA = 1
LIMITS = {"default": 600.0}
EMPTY: dict[str, Any] = {
    "large": [],
    "peak_gflops": None,
    "bandwidth": None,
    "peak_gb_per_s": None,
    "models": [],
}
NOT_MEASURED: dict[str, Any] = {
    "batch": None, "timesteps": None, "complete": False, "flops_per_step": None,
    "bytes_per_step": None, "products": [], "products_s": None,
}  # fmt: skip


def probe(planned: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """Makes the probe that `planned` (an entry of ``probes.json``) describes and writes it, also
    where it failed: then with its ``error``. Nothing else on this host is timed meanwhile. Raises
    `RunError` where nothing could be tried or written."""
    key = planned["key"]
    folder = place.folder / "probes"
    cores = affinity.choose(affinity.read_topology(), planned["config"]["device"].get("threads"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locks.locked(place.timing_lock, f"process {os.getpid()}, probes {key}") as timing:
            outcome = _run(planned, place, folder, timing, cores)
        found = assembled(planned, outcome, len(cores), machine.fingerprint())
        write_json(folder / f"{key}.json", found)
    except OSError as error:
        raise RunError(
            f"{key} could not be probed: {error}.",
            where=str(folder),
            remedy="free or unlock the results folder and run the same command again.",
        ) from error
    return found


def assembled(
    planned: Mapping[str, Any], outcome: Outcome, threads: int, hardware: Mapping[str, Any]
) -> dict[str, Any]:
    """The probe from what the worker reported before it ended."""
    events: list[Event] = outcome.events
    told = assemble.facts_of(events, "probe")
    failure = verdict.failure_reason(events, outcome.exit_code, outcome.phase, outcome.over_limit)
    measured = assemble.facts_of(events, "measured")
    wrong = device_reasons(planned["config"]["device"], measured, hardware)
    error = "; ".join(reason.text for reason in [*filter(None, [failure]), *wrong]) or None
    if wrong:
        told = {}
    return {
        "schema": SCHEMA,
        "key": planned["key"],
        **planned["choices"],
        "overrides": planned["overrides"],
        "machine": hardware["machine"],
        "digest": planned["digest"],
        "threads": threads,
        "error": error,
        "foreign_load": _foreign(events),
        **{name: told.get(name, nothing) for name, nothing in EMPTY.items()},
        "models": [{**NOT_MEASURED, **model} for model in told.get("models") or []],
    }


def _foreign(events: list[Event]) -> float | None:
    """CPU seconds per second that others used on the probe's own cores while it measured."""
    phases = [phase for phase in assemble.phases_of(events) if phase.name != "import"]
    used = [(phase.details.get("load") or {}).get("foreign") for phase in phases]
    seconds = sum(phase.seconds for phase in phases)
    return sum(filter(None, used)) / seconds if seconds and None not in used else None


def _run(planned, place: Place, folder: Path, timing: int, cores: tuple[int, ...]) -> Outcome:
    key, config = planned["key"], planned["config"]
    job = {
        "mode": "probe",
        "config": config,
        "models": planned["models"],
        "threads": len(cores),
        "cores": list(cores),
        "parent": os.getpid(),
    }
    work = folder / "work"
    work.mkdir(exist_ok=True)
    files = {name: work / f"{key}.{name}" for name in ("job.json", "log", "events.jsonl")}
    for file in files.values():
        file.unlink(missing_ok=True)
    write_json(files["job.json"], job)
    outcome = supervise(
        [
            *launcher(config["build"], place.root),
            str(Path(rnnworker.__file__).parent),
            str(files["job.json"]),
        ],
        environment=worker_environment(os.environ, config, len(cores)),
        log=files["log"],
        events_file=files["events.jsonl"],
        limits=LIMITS,
        inherit=(timing,),
        on_event=_say_phase(key),
    )
    if outcome.exit_code == SIGKILLED and not outcome.over_limit:
        raise RunError(
            f"was killed from outside in phase {outcome.phase}.",
            where=f"probe {key}",
            remedy="run the same command again; if memory ran out, on a machine with more.",
        )
    return outcome


def _say_phase(key: str):
    def on_event(event: Event) -> None:
        if event["event"] == "phase_begin":
            say(f"probes {key}: {str(event.get('phase')).removeprefix('model_')}")

    return on_event
