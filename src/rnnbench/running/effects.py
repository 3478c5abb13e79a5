"""How the members of a round compare: one number each, from the turns they took. Pure.

In each cycle every member has one turn, so that all of a cycle meet the same minute of the machine:

    log seconds per step = effect of the member + effect of the cycle + noise

Both effects are found by Tukey's median polish (*Exploratory Data Analysis*, 1977), which a burst
of load in some turns does not move. A turn in which others used the member's cores counts for
nobody: a rule that does not look at what was measured. Where too few are left, because the load did
not come in bursts, all count.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rnnbench.running.assemble import turns_of

LEAST_CYCLES = 5  # of a member, with another one in each
DISTURBED_SECONDS = 0.02  # of foreign or stolen CPU: two ticks of the kernel's clock
DISTURBED_SHARE = 0.10  # and so much of the turn's seconds
ROUNDS_OF_POLISH = 20
Turn = Mapping[str, Any]
TURNS = ("turn", "cycle", "start", "seconds", "steps", "full", "good", "major_faults")


def turns(
    events: Sequence[Mapping[str, Any]], given: Sequence[Mapping[str, Any]]
) -> dict[str, list[Any]]:
    """The turns of a member's training as a record keeps them, from what it told (`events`) and
    what the supervisor noted (`given`): ``full``: as long as planned; ``good``: not `is_disturbed`.
    """
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


def is_disturbed(turn: Mapping[str, Any]) -> bool:
    """Whether others used the member's cores in its turn."""
    others = _number(turn.get("foreign")) + _number(turn.get("steal"))
    return others > max(DISTURBED_SECONDS, DISTURBED_SHARE * turn["seconds"])


def asleep(
    given: Mapping[str, Sequence[Mapping[str, Any]]],
    told: Mapping[str, Sequence[Mapping[str, Any]]],
) -> dict[str, dict[str, float]]:
    """Member → ``seconds`` that it waited while others had turns of their training, and the
    ``cpu_seconds`` that it used meanwhile (the kernel counts in ticks of 10 ms). `given`: what the
    supervisor noted of each member's turns; `told`: the members' events."""
    lengths = {
        turn["turn"]: turn["t"] - turn["begin"]
        for events in told.values()
        for turn in turns_of(events)
        if all(isinstance(turn.get(name), float) for name in ("t", "begin"))
    }
    found = {name: {"seconds": 0.0, "cpu_seconds": 0.0} for name in given}
    for turns_given in given.values():
        for turn in turns_given:
            for name, used in turn["asleep"].items():
                if turn["turn"] in lengths and name in found:
                    found[name]["seconds"] += lengths[turn["turn"]]
                    found[name]["cpu_seconds"] += used
    return found


def effects(members: Mapping[str, Mapping[str, Sequence[Any]]]) -> dict[str, tuple[float, int]]:
    """Member → its effect (log seconds per step, relative to the round's) and the number of cycles
    it comes from, for those with `LEAST_CYCLES` or more that others share. `members`: the `turns`
    of each."""
    undisturbed = _effects(members, ("full", "good"))
    every = _effects(members, ("full",))
    return undisturbed if set(undisturbed) == set(every) else every


def _effects(
    members: Mapping[str, Mapping[str, Sequence[Any]]], wanted: Sequence[str]
) -> dict[str, tuple[float, int]]:
    logs: dict[str, dict[int, float]] = {}
    for name, columns in members.items():
        chosen = [all(flags) for flags in zip(*(columns[key] for key in wanted), strict=True)]
        taken = zip(*(columns[key] for key in ("cycle", "seconds", "steps")), chosen, strict=True)
        logs[name] = {cycle: math.log(s / steps) for cycle, s, steps, counts in taken if counts}
    while True:
        shared = _shared(logs)
        kept = {
            name: {cycle: own[cycle] for cycle in own if cycle in shared}
            for name, own in logs.items()
        }
        kept = {name: own for name, own in kept.items() if len(own) >= LEAST_CYCLES}
        if kept == logs:
            return {name: (effect, len(logs[name])) for name, effect in _polished(logs).items()}
        logs = kept


def _shared(logs: Mapping[str, Mapping[int, float]]) -> set[int]:
    """The cycles in which two members or more have a turn."""
    members = Counter(cycle for own in logs.values() for cycle in own)
    return {cycle for cycle, count in members.items() if count > 1}


def _polished(logs: Mapping[str, Mapping[int, float]]) -> dict[str, float]:
    effect = dict.fromkeys(logs, 0.0)
    cycles = {cycle for own in logs.values() for cycle in own}
    for _ in range(ROUNDS_OF_POLISH):
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
