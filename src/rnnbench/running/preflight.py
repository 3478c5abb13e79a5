"""Makes a preflight item, i.e. a certificate or a probe, from its plan and writes its file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rnnbench import locks
from rnnbench.errors import RunError
from rnnbench.records.store import write_json
from rnnbench.running.assemble import Place
from rnnbench.running.progress import print_progress
from rnnbench.running.worker import Event, Outcome, run_workers
from rnnworker.cohorts import memory_capacity
from rnnworker.memory import available_bytes


def preflight(
    kind: str,
    key: str,
    place: Place,
    job: Mapping[str, Any],
    limits: Mapping[str, float],
    assembled: Callable[[Outcome, Mapping[str, Outcome]], dict[str, Any]],
    others: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> dict[str, Any]:
    """Runs `job` and the `others` (by name) in workers of their own while nothing else on this host
    is timed: side by side, or one after the other if one of them uses a GPU or memory may not
    suffice. Writes and returns the result as the certificate or probe `key`.

    **Arguments:**

    - `kind`: ``certificate`` or ``probe``.
    - `assembled`: makes the result from the outcome of `job` and name → outcome of the others.

    Raises `RunError` if a worker received an external SIGKILL, `OSError` if the result cannot be
    written.
    """
    folder = place.folder / f"{kind}s"
    files = folder / "work" / key
    holder = f"process {os.getpid()}, {kind} {key}"

    jobs = {f"{kind} {key}": (job, files)} | {
        f"{kind} {key} on {name}": (other, Path(f"{files}.{number}"))
        for number, (name, other) in enumerate(others.items(), 1)
    }

    def run(names: Iterable[str]) -> dict[str, Outcome]:
        outcomes = run_workers(
            {name: jobs[name] for name in names},
            place.root,
            timing=timing,
            limits=limits,
            on_event=_say_phase,
        )
        for name, outcome in outcomes.items():
            if outcome.is_killed:
                raise RunError(
                    f"received an external SIGKILL in phase {outcome.phase}.",
                    where=name,
                    remedy="run the same command again; if memory ran out, use a machine with "
                    "more.",
                )
        return outcomes

    files.parent.mkdir(parents=True, exist_ok=True)
    with locks.locked(place.timing_lock, holder) as timing:
        few = len(jobs) <= memory_capacity(available_bytes())
        together = few and not any(job["card"] for job, _ in jobs.values())
        outcomes: dict[str, Outcome] = {}
        for names in [list(jobs)] if together else [[name] for name in jobs]:
            outcomes |= run(names)
    first, *rest = (outcomes[name] for name in jobs)
    result = assembled(first, dict(zip(others, rest, strict=True)))
    write_json(folder / f"{key}.json", result)
    return result


def _say_phase(label: str) -> Callable[[Event], None]:
    def on_event(event: Event) -> None:
        if event["event"] == "phase_begin":
            phase = str(event.get("phase"))
            print_progress(f"{label}: {phase.removeprefix('certify_').removeprefix('model_')}")

    return on_event
