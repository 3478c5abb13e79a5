"""Compares the members of a round: one number for each, from its turns. No side effects.

In each cycle every member has one turn, so that all turns of a cycle meet the same conditions of
the machine:

    log seconds per step = effect of the member + effect of the cycle + noise

Both effects are estimated by Tukey's median polish (*Exploratory Data Analysis*, 1977), which is
robust to bursts of load in some turns. A turn in which other processes used the member's cores is
excluded; this rule does not depend on the measured time. If too few turns are left because the load
was not in bursts, all turns count.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rnnbench.records.record import RoundFacts
from rnnbench.running.assemble import turns_of
from rnnbench.running.supervise import Outcome

LEAST_CYCLES = 5  # cycles of a member that it shares with another member
DISTURBED_SECONDS = 0.02  # of foreign or stolen CPU: two ticks of the kernel's clock
DISTURBED_SHARE = 0.10  # of the turn's seconds; both thresholds must be exceeded
POLISH_ITERATIONS = 20
Turn = Mapping[str, Any]
TURNS = ("turn", "cycle", "start", "seconds", "steps", "full", "good", "major_faults")


def turns(
    events: Sequence[Mapping[str, Any]], given: Sequence[Mapping[str, Any]]
) -> dict[str, list[Any]]:
    """The turns of a member's training as in its record, from the member's `events` and the turns
    `given` by the supervisor. ``full``: as long as planned; ``good``: not `is_disturbed`."""
    cycles = {turn["turn"]: turn["cycle"] for turn in given}
    rows = [
        {
            **turn,
            "cycle": cycles[turn["turn"]],
            "full": turn.get("full") is True,
            "good": not is_disturbed(turn),
            "major_faults": turn.get("major_faults"),
        }
        for turn in turns_of(events)
        if turn["turn"] in cycles
    ]
    return {name: [row[name] for row in rows] for name in TURNS}


def rounds_of(
    identity: str, outcomes: Mapping[str, Outcome], companions: Collection[str]
) -> dict[str, RoundFacts]:
    """Run → the ``round`` of its record, for the members of a cohort in starting order."""
    members = {name: turns(outcome.events, outcome.turns) for name, outcome in outcomes.items()}
    measured = effects(members) if len(members) > 1 else {}
    rounds = {}
    for name in members:
        effect, cycles = measured.get(name, (None, 0))
        rounds[name] = RoundFacts(
            id=identity,
            members=tuple(members),
            companion=name in companions,
            effect=effect,
            cycles=cycles,
        )
    return rounds


def is_disturbed(turn: Mapping[str, Any]) -> bool:
    """Whether other processes used the member's cores during its turn."""
    others = _number(turn.get("foreign")) + _number(turn.get("steal"))
    return others > max(DISTURBED_SECONDS, DISTURBED_SHARE * turn["seconds"])


def asleep(
    given: Mapping[str, Sequence[Mapping[str, Any]]],
    events: Mapping[str, Sequence[Mapping[str, Any]]],
) -> dict[str, dict[str, float]]:
    """Member → ``seconds`` that it waited while others had turns of their training, and the
    ``cpu_seconds`` that it used in the meantime (the kernel counts in ticks of 10 ms). `given`:
    member → its turns as noted by the supervisor; `events`: member → its events."""
    durations = {
        turn["turn"]: turn["t"] - turn["begin"]
        for member_events in events.values()
        for turn in turns_of(member_events)
        if all(isinstance(turn.get(name), float) for name in ("t", "begin"))
    }
    totals = {name: {"seconds": 0.0, "cpu_seconds": 0.0} for name in given}
    for turns_given in given.values():
        for turn in turns_given:
            for name, used in turn["asleep"].items():
                if turn["turn"] in durations and name in totals:
                    totals[name]["seconds"] += durations[turn["turn"]]
                    totals[name]["cpu_seconds"] += used
    return totals


def effects(members: Mapping[str, Mapping[str, Sequence[Any]]]) -> dict[str, tuple[float, int]]:
    """Member → its effect (log seconds per step, relative to the round's) and the number of cycles
    behind it, for members with at least `LEAST_CYCLES` cycles that they share with others.
    `members`: member → its `turns`."""
    undisturbed = _effects(members, ("full", "good"))
    all_turns = _effects(members, ("full",))
    return undisturbed if set(undisturbed) == set(all_turns) else all_turns


def _effects(
    members: Mapping[str, Mapping[str, Sequence[Any]]], required: Sequence[str]
) -> dict[str, tuple[float, int]]:
    """Effects from the turns in which all the `required` flags are set."""
    logs: dict[str, dict[int, float]] = {}
    for name, columns in members.items():
        counts = [all(flags) for flags in zip(*(columns[key] for key in required), strict=True)]
        rows = zip(*(columns[key] for key in ("cycle", "seconds", "steps")), counts, strict=True)
        logs[name] = {cycle: math.log(s / steps) for cycle, s, steps, counted in rows if counted}
    while True:
        shared = _shared_cycles(logs)
        kept = {
            name: {cycle: own[cycle] for cycle in own if cycle in shared}
            for name, own in logs.items()
        }
        kept = {name: own for name, own in kept.items() if len(own) >= LEAST_CYCLES}
        if kept == logs:
            return {
                name: (effect, len(logs[name])) for name, effect in _median_polish(logs).items()
            }
        logs = kept


def _shared_cycles(logs: Mapping[str, Mapping[int, float]]) -> set[int]:
    """The cycles in which at least two members have a turn."""
    members = Counter(cycle for own in logs.values() for cycle in own)
    return {cycle for cycle, count in members.items() if count > 1}


def _median_polish(logs: Mapping[str, Mapping[int, float]]) -> dict[str, float]:
    effect = dict.fromkeys(logs, 0.0)
    cycles = {cycle for own in logs.values() for cycle in own}
    for _ in range(POLISH_ITERATIONS):
        level = {
            cycle: statistics.median(
                own[cycle] - effect[name] for name, own in logs.items() if cycle in own
            )
            for cycle in cycles
        }
        before = effect
        effect = {
            name: statistics.median(value - level[cycle] for cycle, value in own.items())
            for name, own in logs.items()
        }
        if all(abs(effect[name] - before[name]) < 1e-9 for name in logs):
            break
    return effect


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0
