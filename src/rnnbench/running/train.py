"""One run: its place, its line in the plan, and its record from what its worker reported."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rnnbench.errors import RunError
from rnnbench.records import timestamps
from rnnbench.records.record import Reason, Record
from rnnbench.running import assemble, effects, verdict
from rnnbench.running.card_use import card_use
from rnnbench.running.device import device_reasons
from rnnbench.running.supervise import Event, Outcome


@dataclass(frozen=True)
class Place:
    """The place of a run: the project's root, its results folder, the site, the experiment, and the
    file whose lock allows only one process on this host to time runs."""

    root: Path
    results: Path
    site: str
    experiment: str
    timing_lock: Path

    @property
    def folder(self) -> Path:
        return self.results / self.site / self.experiment

    def pointer(self, name: str) -> Path:
        return self.folder / f"{name}.json"


# Near the beginning of a line of the plan.
ROUND = re.compile(r'"digest": "\w+", "round": "([^"\\]+)"')


def timing_lock() -> Path:
    """The lock file of this host, regardless of the user's temporary folder."""
    path = os.environ.get("RNNBENCH_TIMING_LOCK", "/tmp/rnnbench-timing.lock")
    return Path(os.path.expandvars(path))


def assembled(
    planned: Mapping[str, Any],
    place: Place,
    hardware: Mapping[str, Any],
    started: str,
    outcome: Outcome,
    finished: str | None = None,
    log_tail: str = "",
    ran_out: bool = False,
    round_: Mapping[str, Any] | None = None,
    asleep: Mapping[str, float] | None = None,
) -> Record:
    """The record of a worker that has ended, successfully or not (see `failure_reason`).

    **Arguments:**

    - `log_tail`, `ran_out`: see `failure_reason`.
    - `round_`: the record's ``round``.
    - `asleep`: the CPU time it used while others had their turns (`effects.asleep`).
    """
    events: list[Event] = outcome.events
    phases, epochs = assemble.phases_of(events), assemble.epochs_of(events)
    measured = {
        **assemble.facts_of(events, "measured"),
        "closure": verdict.closure(phases, epochs),
        "wall_seconds": assemble.wall_seconds(events) if events else None,
        "garbage_lines": outcome.garbage,
        "asleep": dict(asleep) if asleep else None,
    }
    measured |= card_use(events, epochs, measured.get("card"))
    machine_facts = {**hardware, **assemble.facts_of(events, "hardware")}
    turns = effects.turns(events, outcome.turns)
    device = device_reasons(planned["config"]["device"], measured, machine_facts)
    failure = verdict.failure_reason(
        events, outcome.exit_code, outcome.phase, outcome.over_limit, log_tail, ran_out
    )
    if failure is None and not any(event["event"] == "finished" for event in events):
        failure = Reason("died", f"ended early in phase {outcome.phase}", "see the run's log.")
    return Record(
        name=planned["name"],
        experiment=place.experiment,
        site=place.site,
        machine=hardware["machine"],
        started=started,
        finished=finished or timestamps.now(),
        choices=planned["choices"],
        overrides=planned["overrides"],
        seed=planned["seed"],
        repeat=planned["repeat"],
        alias=planned["alias"],
        block=planned["block"],
        order=planned["order"],
        digest=planned["digest"],
        identity=planned["identity"],
        config=planned["config"],
        environment=assemble.facts_of(events, "environment"),
        hardware=machine_facts,
        phases=phases,
        epochs=epochs,
        measured=measured,
        verdict=verdict.judge(phases, epochs, measured, failure, device, turns),
        round=round_,
        turns=turns,
    )


def read_round(plan: Path, name: str) -> tuple[list[dict[str, Any]], int, int]:
    """The lines of the round `name` in the plan, in their order; the index of the round, from 0;
    and the number of rounds. Raises `RunError` if the plan cannot be read or has no such round."""
    lines: list[dict[str, Any]] = []
    rounds: dict[str, int] = {}
    try:
        with plan.open(encoding="utf-8") as file:
            for line in file:
                head = ROUND.search(line)
                if head:
                    rounds.setdefault(head[1], len(rounds))
                    if head[1] == name:
                        lines.append(json.loads(line))
    except OSError as error:
        raise RunError(f"cannot be read: {error}.", where=str(plan)) from error
    if not lines:
        raise RunError(
            f"has no round {name}.", where=str(plan), remedy="start the round through Snakemake."
        )
    return lines, rounds[name], len(rounds)


def progress_label(order: int, total: int, name: str) -> str:
    width = len(str(total))
    return f"[{order + 1:{width}}/{total}] {name}"
