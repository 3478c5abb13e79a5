"""The turns of a run as in its record, and what its members did while they waited. No side
effects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rnnbench.records import bounds
from rnnbench.records.turns import disturbed_cycles
from rnnbench.running.assemble import turns_of
from rnnbench.running.supervise import Outcome

COPIED = ("turn", "start", "seconds", "steps")


def turns(
    events: Sequence[Mapping[str, Any]], given: Sequence[Mapping[str, Any]]
) -> dict[str, list[Any]]:
    """The turns of a member's training as in its record (see `Record`), from the member's `events`
    and the turns `given` by the supervisor."""
    cycles = {turn["turn"]: turn["cycle"] for turn in given}
    rows = [
        bounds.fitting(
            {
                **{name: turn[name] for name in COPIED},
                "cycle": cycles[turn["turn"]],
                "full": turn.get("full") is True,
                "others": _others(turn),
                "took": _took(turn),
                "cores": turn.get("cores"),
                "major_faults": turn.get("major_faults"),
                "reads": turn.get("reads"),
            },
            bounds.TURN,
        )
        for turn in turns_of(events)
        if turn["turn"] in cycles
    ]
    names = ("turn", "cycle", *COPIED[1:], "full", "others", "took", "cores", "major_faults",
             "reads")  # fmt: skip
    return {name: [row.get(name) for row in rows] for name in names}


def _others(turn: Mapping[str, Any]) -> float | None:
    """CPU seconds that other processes and the hypervisor used on the member's cores."""
    busy, own, steal = (_number(turn.get(name)) for name in ("busy", "own", "steal"))
    return None if busy is None or own is None else busy - own + (steal or 0.0)


def _took(turn: Mapping[str, Any]) -> float | None:
    begin, end = (_number(turn.get(name)) for name in ("begin", "t"))
    return None if begin is None or end is None else end - begin


def disturbed_in(outcomes: Mapping[str, Outcome]) -> frozenset[int]:
    """The cycles of a cohort in which other processes used its members' cores."""
    members = {name: turns(outcome.events, outcome.turns) for name, outcome in outcomes.items()}
    return disturbed_cycles(members)


def asleep_in(outcomes: Mapping[str, Outcome]) -> dict[str, dict[str, float]]:
    """Member of a cohort → ``seconds`` that it waited while others had turns of their training, and
    the ``cpu_seconds`` that it used in the meantime (the kernel counts in ticks of 10 ms)."""
    durations = {
        turn["turn"]: turn["t"] - turn["begin"]
        for outcome in outcomes.values()
        for turn in turns_of(outcome.events)
        if all(isinstance(turn.get(name), float) for name in ("t", "begin"))
    }
    totals = {name: {"seconds": 0.0, "cpu_seconds": 0.0} for name in outcomes}
    for outcome in outcomes.values():
        for turn in outcome.turns:
            for name, used in turn["asleep"].items():
                if turn["turn"] in durations and name in totals:
                    totals[name]["seconds"] += durations[turn["turn"]]
                    totals[name]["cpu_seconds"] += used
    return totals


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else None
