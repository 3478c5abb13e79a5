"""Makes a certificate from its plan: a worker per device checks each implementation's layers and
training steps there; the first also compares the implementations with each other."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from rnnbench.running import assemble, verdict
from rnnbench.running.assemble import Place
from rnnbench.running.preflight import preflight
from rnnbench.running.worker import Outcome, job_of
from rnnbench.sources.certificates import judged
from rnnbench.tables.certificates import NOT_TRIED
from rnnworker import machine
from rnnworker.certificate_jobs import jobs_of
from rnnworker.precision import DEFAULT, TOLERANCE

SCHEMA = 3
LIMITS = {"default": 3600.0}
NOT_REPORTED = "the worker ended without reporting it"
# What could not be checked on a device, without the reason.
NOT_CHECKED: dict[str, dict[str, Any]] = {
    "probed": {"batches": [], "wrong": None},
    "applied": {"threads": None, "steps": 0, "off": None, "worst": None},
}
MEASURED = ("kernel", "outputs", "gradients", "loss_curve", "round_trip", "function")


def certify(
    planned: Mapping[str, Any], place: Place, *, pinned_md5: str | None = None
) -> dict[str, Any]:
    """Makes and writes the certificate that `planned` (an entry of ``certificates.json``)
    describes. Nothing else on this host is timed in the meantime. Raises `RunError` if it cannot be
    made."""
    (first, *others) = (
        {**job_of(job["config"], place.root, pinned_md5=pinned_md5), **job}
        for job in jobs_of(planned)
    )
    return preflight(
        "certificate",
        planned["key"],
        place,
        first,
        LIMITS,
        partial(assembled, planned),
        {job["device"]: job for job in others},
    )


def assembled(
    planned: Mapping[str, Any],
    outcome: Outcome,
    others: Mapping[str, Outcome] = MappingProxyType({}),
    made_on: str | None = None,
) -> dict[str, Any]:
    """The certificate, from what the worker reported before it ended.

    **Arguments:**

    - `others`: other device → its worker's outcome.
    - `made_on`: the worker's machine; None for this one.
    """
    reported = assemble.facts_of(outcome.events, "certificate")
    failure = verdict.failure_reason(outcome)
    entries = _reported_by(outcome)
    names = [entry["name"] for entry in planned["implementations"]]
    for entry in planned["implementations"]:
        name = entry["name"]
        if entry["skip"]:
            entries[name] = {**_not_measured("not_run"), "why": entry["skip"]}
        elif name not in entries:
            why = failure.text if failure else NOT_REPORTED
            was_current = outcome.phase == f"certify_{name}"
            entries[name] = {**_not_measured("failed" if was_current else "not_run"), "why": why}
    outcomes = {**{place["name"]: outcome for place in planned["devices"][:1]}, **others}
    for place in planned["devices"]:
        device = place["name"]
        found = _reported_by(outcomes.get(device))
        for name in place["implementations"]:
            here, entry = found.get(name) or {}, entries[name]
            why = here.get("why") or (NOT_REPORTED if device in outcomes else NOT_TRIED)
            for part, missing in NOT_CHECKED.items():
                result = (here.get(part) or {}).get(device)
                if result or entry["status"] == "certified":
                    result = result or {**missing, "why": why}
                    entry = {**entry, part: {**(entry.get(part) or {}), device: result}}
            entries[name] = entry
    precision = reported.get("precision")
    tolerance = reported.get("tolerance") or TOLERANCE.get(precision or DEFAULT, {})
    return {
        "schema": SCHEMA,
        "key": planned["key"],
        **planned["choices"],
        "overrides": planned["overrides"],
        "digest": planned["digest"],
        "machine": made_on or machine.fingerprint()["machine"],
        "precision": precision,
        "tolerance": tolerance,
        "implementations": {name: _judged(entries[name], tolerance) for name in names},
        "pairs": reported.get("pairs") or [],
    }


def _judged(entry: Mapping[str, Any], tolerance: Mapping[str, float]) -> dict[str, Any]:
    """What failed by itself is wrong apart from layers and steps."""
    failed = entry["status"] == "failed"
    return judged({**entry, "function_why": entry["why"] if failed else None}, tolerance)


def _reported_by(outcome: Outcome | None) -> dict[str, Any]:
    """Implementation → the entry that a device's worker reported."""
    reported = assemble.facts_of(outcome.events, "certificate") if outcome else {}
    return dict(reported.get("implementations") or {})


def _not_measured(status: str) -> dict[str, Any]:
    return {"status": status, "why": None, **dict.fromkeys(MEASURED)}
