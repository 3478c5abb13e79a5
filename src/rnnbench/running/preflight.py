"""What is made before the runs, a certificate or a probe: from the plan to its file."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rnnbench import locks
from rnnbench.errors import RunError
from rnnbench.records.store import write_json
from rnnbench.running import memory
from rnnbench.running.progress import say
from rnnbench.running.supervise import SIGKILLED, Event, Outcome
from rnnbench.running.train import Place
from rnnbench.running.worker import work


def preflight(
    what: str,
    key: str,
    place: Place,
    job: Mapping[str, Any],
    limits: Mapping[str, float],
    assembled: Callable[[Outcome, str, Mapping[str, Outcome]], dict[str, Any]],
    others: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> dict[str, Any]:
    """Has a worker do `job`, and then each of the `others` (by name), while nothing on this host is
    timed, and writes what `assembled` makes of the outcome, of the end of the log, and of name →
    outcome of the others, as the ``certificate`` or ``probe`` (`what`) `key`.
    Raises `RunError` where nothing could be tried or written."""
    folder = place.folder / f"{what}s"
    files = folder / "work" / key
    holder = f"process {os.getpid()}, {what} {key}"

    def done(job: Mapping[str, Any], name: str, files: Path) -> Outcome:
        for ending in (".log", ".events.jsonl"):
            Path(f"{files}{ending}").unlink(missing_ok=True)
        outcome = work(
            job, place.root, files, timing=timing, limits=limits, on_event=_say_phase(name)
        )
        if outcome.exit_code == SIGKILLED and not outcome.over_limit:
            raise RunError(
                f"was killed from outside in phase {outcome.phase}.",
                where=name,
                remedy="run the same command again; if memory ran out, on a machine with more.",
            )
        return outcome

    try:
        files.parent.mkdir(parents=True, exist_ok=True)
        with locks.locked(place.timing_lock, holder) as timing:
            outcome = done(job, f"{what} {key}", files)
            beside = {
                name: done(other, f"{what} {key} on {name}", Path(f"{files}.{number}"))
                for number, (name, other) in enumerate(others.items(), 1)
            }
        found = assembled(outcome, memory.tail(Path(f"{files}.log")), beside)
        write_json(folder / f"{key}.json", found)
    except OSError as error:
        raise RunError(
            f"{what} {key} could not be made: {error}.",
            where=str(folder),
            remedy="free or unlock the results folder and run the same command again.",
        ) from error
    return found


def _say_phase(label: str) -> Callable[[Event], None]:
    def on_event(event: Event) -> None:
        if event["event"] == "phase_begin":
            phase = str(event.get("phase"))
            say(f"{label}: {phase.removeprefix('certify_').removeprefix('model_')}")

    return on_event
