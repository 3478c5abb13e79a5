"""Makes a probe from its plan: the worker measures the performance of the device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rnnbench.running import assemble, verdict
from rnnbench.running.assemble import Place
from rnnbench.running.preflight import preflight
from rnnbench.running.verdict import device_reasons
from rnnbench.running.worker import Event, Outcome, job_of
from rnnworker import machine

SCHEMA = 1
LIMITS = {"default": 600.0}
EMPTY: dict[str, Any] = {
    "large": [],
    "peak_gflops": None,
    "models": [],
}
NOT_MEASURED: dict[str, Any] = {
    "batch": None, "timesteps": None, "complete": False, "flops_per_step": None,
}  # fmt: skip


def probe(planned: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """Makes and writes the probe that `planned` (an entry of ``probes.json``) describes. A failed
    probe is written with its ``error``. Nothing else on this host is timed in the meantime. Raises
    `RunError` if the probe cannot be made or written."""
    job = job_of(planned["config"], place.root, mode="probe", models=planned["models"])
    hardware = machine.fingerprint()

    def made(outcome: Outcome, others: Mapping[str, Outcome]) -> dict[str, Any]:
        return assembled(planned, job["threads"], hardware, outcome)

    return preflight("probe", planned["key"], place, job, LIMITS, made)


def assembled(
    planned: Mapping[str, Any],
    threads: int,
    hardware: Mapping[str, Any],
    outcome: Outcome,
) -> dict[str, Any]:
    """The probe, from what the worker reported before it ended."""
    events: list[Event] = outcome.events
    reported = assemble.facts_of(events, "probe")
    failure = verdict.failure_reason(outcome)
    measured = assemble.facts_of(events, "measured")
    wrong = device_reasons(planned["config"]["device"], measured, hardware)
    error = "; ".join(reason.text for reason in [*filter(None, [failure]), *wrong]) or None
    if wrong:
        reported = {}
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
        **{name: reported.get(name, empty) for name, empty in EMPTY.items()},
        "models": [{**NOT_MEASURED, **model} for model in reported.get("models") or []],
    }


def _foreign(events: list[Event]) -> float | None:
    """CPU seconds per second that other processes used on the probe's cores while it measured;
    None if unknown."""
    phases = [phase for phase in assemble.phases_of(events) if phase.name != "import"]
    used = [(phase.details.get("load") or {}).get("foreign") for phase in phases]
    seconds = sum(phase.seconds for phase in phases)
    return sum(filter(None, used)) / seconds if seconds and None not in used else None
