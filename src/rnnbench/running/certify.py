"""One certificate, from the plan to its file: the worker compares the implementations."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from rnnbench.running import assemble, verdict
from rnnbench.running.preflight import preflight
from rnnbench.running.supervise import Event, Outcome
from rnnbench.running.train import Place
from rnnbench.running.worker import job_of
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
    told = [
        {"name": entry["name"], "rnn": entry["rnn"]}
        for entry in planned["implementations"]
        if not entry["skip"]
    ]
    job = job_of(
        planned["config"], place.root, pinned_md5=pinned_md5, mode="certify", implementations=told
    )
    return preflight("certificate", planned["key"], place, job, LIMITS, partial(assembled, planned))


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


def _nothing(status: str) -> dict[str, Any]:
    return {"status": status, "why": None, **dict.fromkeys(MEASURED)}
