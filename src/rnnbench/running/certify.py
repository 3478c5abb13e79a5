"""One certificate, from the plan to its file: the worker compares the implementations on one
device, and on each other device looks at the steps that they apply."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from rnnbench.running import assemble, verdict
from rnnbench.running.preflight import preflight
from rnnbench.running.supervise import Event, Outcome
from rnnbench.running.train import Place
from rnnbench.running.worker import job_of
from rnnbench.tables.certificates import not_learning
from rnnworker import machine
from rnnworker.certificate_jobs import jobs_of

SCHEMA = 2
LIMITS = {"default": 3600.0}
MEASURED = ("kernel", "outputs", "gradients", "loss_curve", "round_trip", "function")


def certify(
    planned: Mapping[str, Any], place: Place, *, pinned_md5: str | None = None
) -> dict[str, Any]:
    """Makes the certificate that `planned` (an entry of ``certificates.json``) describes and
    writes it. Nothing on this host is timed meanwhile. Raises `RunError` where none could be
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
    """The certificate from what the worker reported before it ended, on the machine `made_on`
    (None: this one). `log_tail` is the end of its log; `others`: device → the outcome there."""
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
    for one in planned["devices"]:
        elsewhere = _applied_on(one["name"], others.get(one["name"]))
        tried = one["name"] in others
        unseen = "the worker ended without a word about it" if tried else "it was not tried"
        for name in one["implementations"]:
            applied = elsewhere.get(name) or not_applied(unseen)
            found[name] = {
                **found[name],
                "applied": {**(found[name].get("applied") or {}), one["name"]: applied},
            }
    return {
        "schema": SCHEMA,
        "key": planned["key"],
        **planned["choices"],
        "overrides": planned["overrides"],
        "digest": planned["digest"],
        "machine": made_on or machine.fingerprint()["machine"],
        "precision": told.get("precision"),
        "tolerance": told.get("tolerance") or {},
        "implementations": {name: _whole(found[name]) for name in names},
        "pairs": told.get("pairs") or [],
        "portability": told.get("portability") or [],
    }


def not_applied(why: str) -> dict[str, Any]:
    """What is known of the steps where none could be looked at."""
    return {"threads": None, "steps": 0, "off": None, "worst": None, "why": why}


def _whole(entry: Mapping[str, Any]) -> dict[str, Any]:
    """`entry` with what its steps say about it; ``function_why`` keeps what is wrong elsewhere."""
    applied = dict(sorted((entry.get("applied") or {}).items()))
    off = [f"on {device} it {why}" for device, one in applied.items() if (why := not_learning(one))]
    failed = entry["status"] == "failed"
    return {
        **entry,
        "status": "failed" if off else entry["status"],
        "why": "; ".join(filter(None, [entry["why"], *off])) or None,
        "function_why": entry["why"] if failed else None,
        "applied": applied,
    }


def _applied_on(device: str, outcome: Outcome | None) -> dict[str, Any]:
    """Implementation → its steps on `device`, from the worker's outcome there."""
    told = assemble.facts_of(outcome.events, "certificate") if outcome else {}
    return {
        name: (one.get("applied") or {}).get(device)
        for name, one in (told.get("implementations") or {}).items()
    }


def _nothing(status: str) -> dict[str, Any]:
    return {"status": status, "why": None, **dict.fromkeys(MEASURED)}
