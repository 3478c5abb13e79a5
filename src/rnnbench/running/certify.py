"""One certificate, from the plan to its file: the worker compares the implementations."""

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
from rnnbench.running import affinity, assemble, memory, verdict
from rnnbench.running.progress import say
from rnnbench.running.supervise import Event, Outcome, supervise
from rnnbench.running.train import SIGKILLED, Place, worker_environment
from rnnworker import machine

SCHEMA = 1
LIMITS = {"default": 3600.0}
MEASURED = ("kernel", "outputs", "gradients", "loss_curve", "round_trip")


def certify(
    planned: Mapping[str, Any], place: Place, *, pinned_md5: str | None = None
) -> dict[str, Any]:
    """Makes the certificate that `planned` (an entry of ``certificates.json``) describes and
    writes it. Nothing on this host is timed meanwhile. Raises `RunError` where none could be
    made."""
    key = planned["key"]
    folder = place.folder / "certificates"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locks.locked(place.timing_lock, f"process {os.getpid()}, certifies {key}") as timing:
            outcome = _run(planned, place, folder, timing, pinned_md5)
        certificate = assembled(planned, outcome, memory.tail(folder / "work" / f"{key}.log"))
        write_json(folder / f"{key}.json", certificate)
    except OSError as error:
        raise RunError(
            f"{key} could not be certified: {error}.",
            where=str(folder),
            remedy="free or unlock the results folder and run the same command again.",
        ) from error
    return certificate


def assembled(
    planned: Mapping[str, Any], outcome: Outcome, log_tail: str = "", made_on: str | None = None
) -> dict[str, Any]:
    """The certificate from what the worker reported before it ended, on the machine `made_on`
    (None: this one). `log_tail` is the end of its log."""
    events: list[Event] = outcome.events
    told = assemble.facts_of(events, "certificate")
    failure = verdict.failure_reason(
        events, outcome.exit_code, outcome.phase, outcome.over_limit, log_tail
    )
    found = dict(told.get("implementations") or {})
    for entry in planned["implementations"]:
        if entry["skip"]:
            found[entry["name"]] = {**_nothing("not_run"), "why": entry["skip"]}
        elif entry["name"] not in found:
            why = failure.text if failure else "the worker ended without a word about it"
            guilty = outcome.phase == f"certify_{entry['name']}"
            found[entry["name"]] = {**_nothing("failed" if guilty else "not_run"), "why": why}
    names = [entry["name"] for entry in planned["implementations"]]
    return {
        "schema": SCHEMA,
        "key": planned["key"],
        **planned["choices"],
        "overrides": planned["overrides"],
        "digest": planned["digest"],
        "machine": made_on or machine.fingerprint()["machine"],
        "precision": told.get("precision"),
        "tolerance": told.get("tolerance") or {},
        "implementations": {name: found[name] for name in names},
        "pairs": told.get("pairs") or [],
        "portability": told.get("portability") or [],
    }


def _run(planned, place: Place, folder: Path, timing: int, pinned_md5: str | None) -> Outcome:
    key, config = planned["key"], planned["config"]
    cores = affinity.choose(affinity.read_topology(), config["device"].get("threads"))
    dataset = config["dataset"].get("path")
    job = {
        "mode": "certify",
        "config": config,
        "implementations": [
            {"name": entry["name"], "rnn": entry["rnn"]}
            for entry in planned["implementations"]
            if not entry["skip"]
        ],
        "threads": len(cores),
        "cores": list(cores),
        "dataset": str(place.root / dataset) if dataset else None,
        "pinned_md5": pinned_md5,
        "memory_bytes": (config.get("limits") or {}).get("memory_bytes"),
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
            where=f"certificate {key}",
            remedy="run the same command again; if memory ran out, on a machine with more.",
        )
    return outcome


def _say_phase(key: str):
    def on_event(event: Event) -> None:
        if event["event"] == "phase_begin":
            say(f"certifies {key}: {str(event.get('phase')).removeprefix('certify_')}")

    return on_event


def _nothing(status: str) -> dict[str, Any]:
    return {"status": status, "why": None, **dict.fromkeys(MEASURED)}
