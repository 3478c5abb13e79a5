"""Makes a certificate from its plan: the worker compares the implementations on one device, and
checks on each other device which training steps they apply."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from rnnbench.running import assemble, verdict
from rnnbench.running.preflight import preflight
from rnnbench.running.supervise import Outcome
from rnnbench.running.train import Place
from rnnbench.running.worker import job_of
from rnnbench.tables.certificates import not_learning
from rnnworker import machine
from rnnworker.certificate_jobs import jobs_of

SCHEMA = 2
LIMITS = {"default": 3600.0}
NOT_REPORTED = "the worker ended without reporting it"
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
    log_tail: str = "",
    others: Mapping[str, Outcome] = MappingProxyType({}),
    made_on: str | None = None,
) -> dict[str, Any]:
    """The certificate, from what the worker reported before it ended.

    **Arguments:**

    - `log_tail`: the end of the worker's log.
    - `others`: other device → its worker's outcome.
    - `made_on`: the worker's machine; None for this one.
    """
    reported = assemble.facts_of(outcome.events, "certificate")
    failure = verdict.failure_reason(outcome, log_tail)
    entries = dict(reported.get("implementations") or {})
    names = [entry["name"] for entry in planned["implementations"]]
    for entry in planned["implementations"]:
        name = entry["name"]
        if entry["skip"]:
            entries[name] = {**_not_measured("not_run"), "why": entry["skip"]}
        elif name not in entries:
            why = failure.text if failure else NOT_REPORTED
            was_current = outcome.phase == f"certify_{name}"
            entries[name] = {**_not_measured("failed" if was_current else "not_run"), "why": why}
    for device in planned["devices"]:
        steps = _applied_on(device["name"], others.get(device["name"]))
        why = NOT_REPORTED if device["name"] in others else "it was not tried"
        for name in device["implementations"]:
            applied = steps.get(name) or not_applied(why)
            entries[name] = {
                **entries[name],
                "applied": {**(entries[name].get("applied") or {}), device["name"]: applied},
            }
    return {
        "schema": SCHEMA,
        "key": planned["key"],
        **planned["choices"],
        "overrides": planned["overrides"],
        "digest": planned["digest"],
        "machine": made_on or machine.fingerprint()["machine"],
        "precision": reported.get("precision"),
        "tolerance": reported.get("tolerance") or {},
        "implementations": {name: _with_status(entries[name]) for name in names},
        "pairs": reported.get("pairs") or [],
        "portability": reported.get("portability") or [],
    }


def not_applied(why: str) -> dict[str, Any]:
    """The entry of training steps that could not be checked."""
    return {"threads": None, "steps": 0, "off": None, "worst": None, "why": why}


def _with_status(entry: Mapping[str, Any]) -> dict[str, Any]:
    """`entry` with wrong steps included in its status and ``why``; ``function_why`` keeps what is
    wrong apart from them."""
    applied = dict(sorted((entry.get("applied") or {}).items()))
    wrong = [
        f"on {device} it {why}" for device, steps in applied.items() if (why := not_learning(steps))
    ]
    failed = entry["status"] == "failed"
    return {
        **entry,
        "status": "failed" if wrong else entry["status"],
        "why": "; ".join(filter(None, [entry["why"], *wrong])) or None,
        "function_why": entry["why"] if failed else None,
        "applied": applied,
    }


def _applied_on(device: str, outcome: Outcome | None) -> dict[str, Any]:
    """Implementation → its steps on `device`, from the outcome of that device's worker."""
    reported = assemble.facts_of(outcome.events, "certificate") if outcome else {}
    return {
        name: (entry.get("applied") or {}).get(device)
        for name, entry in (reported.get("implementations") or {}).items()
    }


def _not_measured(status: str) -> dict[str, Any]:
    return {"status": status, "why": None, **dict.fromkeys(MEASURED)}
