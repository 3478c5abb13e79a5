"""Makes certificates from their plans, and writes their files.

A worker per device checks each implementation's layers and training steps there; the first also
compares the implementations with each other.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from rnnbench import locks
from rnnbench.errors import RunError
from rnnbench.records.store import Place, write_json
from rnnbench.running import worker
from rnnbench.running.assemble import facts_of
from rnnbench.running.progress import print_progress
from rnnbench.running.verdict import LESS_MEMORY, failure_reason
from rnnbench.running.worker import Event, Outcome, job_of, supervise
from rnnbench.sources.certificates import NOT_TRIED, certificate_of
from rnnworker import machine
from rnnworker.cohorts import memory_capacity, must_retry_alone
from rnnworker.members import Member
from rnnworker.precision import DEFAULT, TOLERANCE
from rnnworker.proc_files import available_bytes
from rnnworker.workers import certificate_jobs

SECONDS = 3600.0  # of work in each phase
NOT_REPORTED = "the worker ended without reporting it"
# What could not be checked on a device, without the reason.
NOT_CHECKED: dict[str, dict[str, Any]] = {
    "probed": {"batches": [], "wrong": None},
    "applied": {"threads": None, "steps": 0, "off": None, "worst": None},
}
MEASURED = (
    *("kernel", "outputs", "gradients", "loss_curve", "round_trip", "function"),
    "no_reference",
)


def certify(
    planned: Mapping[str, Any],
    place: Place,
    check: Callable[[], None] = lambda: None,
    *,
    pinned_md5: str | None = None,
) -> dict[str, Any]:
    """Makes, writes and returns the certificate that `planned` (an entry of ``certificates.json``)
    describes, while nothing else on this host is timed. The workers of its devices run side by
    side, or one after the other if one of them uses a GPU or memory may not suffice.

    - `check`: called when the workers have ended; raises if their inputs have changed.

    Raises `RunError` if a worker received an external SIGKILL, `OSError` if the certificate cannot
    be written.
    """
    jobs = {
        job["device"]: {**job_of(job["config"], place.root, pinned_md5=pinned_md5), **job}
        for job in certificate_jobs(planned)
    }
    here = machine.fingerprint()["machine"]
    key, folder = planned["key"], place.folder / "certificates"
    labels: dict[str, str] = {}
    outcomes: dict[str, Outcome] = {}
    with locks.locked(place.timing_lock, f"process {os.getpid()}, certificate {key}") as timing:

        def member_of(device: str) -> Member:
            number = list(jobs).index(device)
            labels[device] = f"certificate {key}" + (f" on {device}" if number else "")
            files = folder / "work" / (f"{key}.{number}" if number else key)
            for ending in (".log", ".events.jsonl"):  # of an earlier attempt
                Path(f"{files}{ending}").unlink(missing_ok=True)
            return worker.member(
                device, jobs[device], place.root, files, limits={"default": SECONDS},
                timing=timing, on_event=partial(_say_phase, labels[device]),
            )  # fmt: skip

        few = len(jobs) <= memory_capacity(available_bytes())
        together = few and not any(job["card"] for job in jobs.values())
        for group in [list(jobs)] if together else [[device] for device in jobs]:
            outcomes |= supervise([member_of(device) for device in group])
            for device in group:
                # Out of memory next to others does not mean that it needs too much on its own.
                if must_retry_alone(jobs[device]["config"], outcomes[device], len(group)):
                    why = "ran out of memory; retrying it on its own"
                    print_progress(f"{labels[device]}: {why}")
                    outcomes |= supervise([member_of(device)])
            for device in group:
                if outcomes[device].is_killed:
                    raise RunError(
                        f"received an external SIGKILL in phase {outcomes[device].phase}.",
                        where=labels[device],
                        remedy=f"run the same command again; if memory ran out, {LESS_MEMORY}.",
                    )
    check()
    certificate = assembled_certificate(planned, outcomes, here)
    write_json(folder / f"{key}.json", certificate)
    return certificate


def _say_phase(label: str, event: Event) -> None:
    if event["event"] == "phase_begin":
        print_progress(f"{label}: {str(event.get('phase')).removeprefix('certify_')}")


def assembled_certificate(
    planned: Mapping[str, Any], outcomes: Mapping[str, Outcome], made_on: str
) -> dict[str, Any]:
    """The certificate, from what the workers reported before they ended. `outcomes`: device → its
    worker's outcome; the first planned device has one. `made_on`: the machine."""
    first = outcomes[planned["devices"][0]["name"]]
    reported = facts_of(first.events, "certificate")
    precision = reported.get("precision")
    tolerance = reported.get("tolerance") or TOLERANCE.get(precision or DEFAULT, {})
    on_devices = {
        device: facts_of(outcome.events, "certificate").get("implementations") or {}
        for device, outcome in outcomes.items()
    }
    entries = {}
    for implementation in planned["implementations"]:
        name = implementation["name"]
        entry = _entry(implementation, first, reported.get("implementations") or {})
        for place in planned["devices"]:
            if name in place["implementations"]:
                entry = _with_device(entry, place["name"], on_devices, name)
        # What failed by itself is wrong apart from layers and steps.
        failed = entry["status"] in ("failed", "refused")
        entries[name] = {**entry, "function_why": entry["why"] if failed else None}
    data = {
        "schema": 3,
        "key": planned["key"],
        **planned["choices"],
        "overrides": planned["overrides"],
        "digest": planned["digest"],
        "machine": made_on,
        "precision": precision,
        "tolerance": tolerance,
        "implementations": entries,
        "pairs": reported.get("pairs") or [],
    }
    found = certificate_of(data, f"certificate {planned['key']}")
    judged = {"implementations": found.implementations, "pairs": found.pairs}
    return {**data, **msgspec.to_builtins(judged)}


def _entry(
    implementation: Mapping[str, Any], outcome: Outcome, reported: Mapping[str, Any]
) -> dict[str, Any]:
    """What the first device's worker `reported` about an implementation, or why it did not."""
    name, why, status = implementation["name"], implementation["skip"], "not_run"
    if name in reported and not why:
        return dict(reported[name])
    if not why:
        failure = failure_reason(outcome)
        why = failure.text if failure else f"{NOT_REPORTED}, in phase {outcome.phase}"
        status = "failed" if outcome.phase == f"certify_{name}" else "not_run"
    return {"status": status, "why": why, **dict.fromkeys(MEASURED)}


def _with_device(
    entry: Mapping[str, Any], device: str, found: Mapping[str, Mapping[str, Any]], name: str
) -> dict[str, Any]:
    """The entry of an implementation with what was `found` (device → implementation → its entry)
    on a device, or why nothing was."""
    here = found.get(device, {}).get(name) or {}
    why = here.get("why") or (NOT_REPORTED if device in found else NOT_TRIED)
    parts = {}
    for part, missing in NOT_CHECKED.items():
        result = (here.get(part) or {}).get(device)
        if result or entry["status"] == "certified":
            parts[part] = {**(entry.get(part) or {}), device: result or {**missing, "why": why}}
    return {**entry, **parts}
