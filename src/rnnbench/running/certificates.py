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
from rnnbench.records.plan_file import PlannedCertificate, PlannedImplementation
from rnnbench.records.store import Place, write_json
from rnnbench.running import worker
from rnnbench.running.assemble import facts_of
from rnnbench.running.progress import draw, print_progress
from rnnbench.running.verdict import LESS_MEMORY, failure_reason
from rnnbench.running.worker import Event, Facts, Outcome, job_of, supervise
from rnnbench.sources.certificates import NOT_TRIED, Certificate, certificate_of
from rnnworker import machine
from rnnworker.cohorts import memory_capacity, must_retry_alone
from rnnworker.forked_workers import Importers
from rnnworker.members import Member
from rnnworker.precision import DEFAULT, TOLERANCE
from rnnworker.proc_files import available_bytes
from rnnworker.workers import certificate_jobs

SECONDS = 3600.0  # of work in each phase
NOT_REPORTED = "the worker ended without reporting it"
# What could not be checked on a device, without the reason.
NOT_CHECKED: dict[str, dict[str, Any]] = {
    "probed": {"batches": [], "wrong": None},
    "applied": {
        "threads": None,
        "steps": 0,
        "off": None,
        "worst": None,
    },
}
MEASURED = (
    "kernel",
    "outputs",
    "gradients",
    "loss_curve",
    "round_trip",
    "draws",
    "function",
    "no_reference",
)


def certify(
    planned: PlannedCertificate,
    place: Place,
    check: Callable[[], None] = lambda: None,
    *,
    pinned_md5: str | None = None,
    importers: Importers | None = None,
) -> Certificate:
    """Makes, writes and returns a certificate, while nothing else on this host is timed. The
    workers of its devices run side by side, or one after the other if one of them uses a GPU or
    memory may not suffice.

    - `check`: called when the workers have ended; raises if their inputs have changed.
    - `pinned_md5`: the md5 of the dataset from which the workers may load pickles.
    - `importers`: those of a loop over rounds.

    Raises `RunError` if a worker received an external SIGKILL, `OSError` if the certificate cannot
    be written.
    """
    jobs = {}
    for job in certificate_jobs(planned.as_dict()):
        general = job_of(job["config"], place.root, pinned_md5=pinned_md5)
        jobs[job["device"]] = {**general, **job}

    here = machine.fingerprint()["machine"]
    key = planned.key
    outcomes = _outcomes(jobs, key, place, importers)
    check()
    content = assembled_certificate(planned, outcomes, here)
    write_json(place.folder / "certificates" / f"{key}.json", content)
    return certificate_of(content, f"certificate {key}")


def _outcomes(
    jobs: Mapping[str, Facts],
    key: str,
    place: Place,
    importers: Importers | None,
) -> dict[str, Outcome]:
    """Runs the workers of a certificate while nothing else on this host is timed.

    - `jobs`: device → its worker's job.
    - `key`: the certificate's.
    - `importers`: as for `certify`.

    Returns device → outcome. Raises `RunError` as `certify`.
    """
    labels: dict[str, str] = {}
    outcomes: dict[str, Outcome] = {}

    def waiting(holder: str) -> None:
        who = holder or "unknown holder"
        print_progress(f"certificate {key}: waiting for this host to finish timing ({who})")

    holder = f"process {os.getpid()}, certificate {key}"
    with locks.locked(place.timing_lock, holder, waiting) as timing:

        def member_of(device: str) -> Member:
            label = f"certificate {key}"
            files = place.folder / "certificates" / "work" / key
            number = list(jobs).index(device)
            if number:
                label += f" on {device}"
                files = files.with_name(f"{key}.{number}")
            labels[device] = label
            for ending in (".log", ".events.jsonl"):  # of an earlier attempt
                Path(f"{files}{ending}").unlink(missing_ok=True)
            return worker.member(
                device,
                jobs[device],
                place.root,
                files,
                limits={"default": SECONDS},
                timing=timing,
                on_event=partial(_say_phase, label),
            )

        groups = [[device] for device in jobs]
        few = len(jobs) <= memory_capacity(available_bytes())
        if few and not any(job["card"] for job in jobs.values()):
            groups = [list(jobs)]

        for group in groups:
            outcomes |= supervise([member_of(device) for device in group], importers=importers)
            for device in group:
                # Out of memory next to others does not mean that it needs too much on its own.
                if must_retry_alone(jobs[device]["config"], outcomes[device], len(group)):
                    why = "ran out of memory; retrying it on its own"
                    print_progress(f"{labels[device]}: {why}")
                    outcomes |= supervise([member_of(device)], importers=importers)
            for device in group:
                outcome = outcomes[device]
                if outcome.is_killed:
                    what = f"received an external SIGKILL in phase {outcome.phase}."
                    remedy = f"run the same command again; if memory ran out, {LESS_MEMORY}."
                    raise RunError(what, where=labels[device], remedy=remedy)
    return outcomes


def _say_phase(label: str, event: Event) -> None:
    """Shows on a terminal which phase of a worker begins. `label`: the prefix of the message."""
    if event["event"] == "phase_begin":
        phase = str(event.get("phase")).removeprefix("certify_")
        draw(f"{label}: {phase}")


def assembled_certificate(
    planned: PlannedCertificate,
    outcomes: Mapping[str, Outcome],
    made_on: str,
) -> dict[str, object]:
    """The content of a certificate's file, from what the workers reported before they ended.

    - `outcomes`: device → its worker's outcome; the first planned device has one.
    - `made_on`: the machine.
    """
    first = outcomes[planned.devices[0].name]
    reported = facts_of(first.events, "certificate")
    precision = reported.get("precision")
    tolerance = reported.get("tolerance") or TOLERANCE.get(precision or DEFAULT, {})
    on_devices = {
        device: facts_of(outcome.events, "certificate").get("implementations") or {}
        for device, outcome in outcomes.items()
    }

    entries = {}
    for implementation in planned.implementations:
        name = implementation.name
        entry = _entry(implementation, first, reported.get("implementations") or {})
        for place in planned.devices:
            if name in place.implementations:
                entry = _with_device(entry, place.name, on_devices, name)
        # What failed by itself is wrong apart from layers and steps.
        entry["function_why"] = None
        if entry["status"] in ("failed", "refused"):
            entry["function_why"] = entry["why"]
        entries[name] = entry

    data = {
        "schema": 4,
        "key": planned.key,
        **planned.choices,
        "overrides": planned.overrides,
        "digest": planned.digest,
        "machine": made_on,
        "precision": precision,
        "tolerance": tolerance,
        "implementations": entries,
        "pairs": reported.get("pairs") or [],
    }

    found = certificate_of(data, f"certificate {planned.key}")
    judged = {"implementations": found.implementations, "pairs": found.pairs}
    return {**data, **msgspec.to_builtins(judged)}


def _entry(
    implementation: PlannedImplementation, outcome: Outcome, reported: Facts
) -> dict[str, Any]:
    """What the first device's worker reported about an implementation, or why it did not.

    - `outcome`: of the worker.
    - `reported`: name of an implementation → its entry.
    """
    name = implementation.name
    why = implementation.skip
    status = "not_run"
    code = None
    if name in reported and not why:
        return dict(reported[name])
    if not why:
        failure = failure_reason(outcome)
        why = f"{NOT_REPORTED}, in phase {outcome.phase}"
        if failure:
            why = failure.text
            code = failure.code
        if outcome.phase == f"certify_{name}":
            status = "failed"
    return {
        "status": status,
        "why": why,
        "code": code,
        **dict.fromkeys(MEASURED),
    }


def _with_device(
    entry: Facts,
    device: str,
    found: Mapping[str, Facts],
    name: str,
) -> dict[str, Any]:
    """The entry of an implementation with what was found on a device, or why nothing was.

    - `entry`: so far.
    - `found`: device → implementation → its entry.
    - `name`: of the implementation.
    """
    here = found.get(device, {}).get(name) or {}
    why = here.get("why")
    if not why:
        why = NOT_REPORTED if device in found else NOT_TRIED

    completed = dict(entry)
    for part, missing in NOT_CHECKED.items():
        result = (here.get(part) or {}).get(device)
        if not result and entry["status"] != "certified":
            continue
        others = entry.get(part) or {}
        completed[part] = {**others, device: result or {**missing, "why": why}}
    return completed
