"""Compares the members of a round: one number for each, from its turns. No side effects.

In each cycle every member has one turn, so that all turns of a cycle meet the same conditions of
the machine. Two members are compared by the median, over their common cycles, of the difference of
their log seconds per step. The effects of all members are the least-squares fit to these medians,

    median of (member i - member j)  =  effect of i - effect of j,

weighted by the number of common cycles, so that they are consistent: a / b times b / c is a / c. If
all members have the same cycles, the effect of i is the mean over j of the medians. Differences of
two turns are unbiased with any number of members. Tukey's median polish, which rnnbench used
before, is biased towards 0 with an odd number: the member in the middle then *is* the level of its
cycle (``benchmarks/calibration.py``; with 3 members and 10 % noise, 10 % were reported as 3.7 %).

A cycle counts unless other processes used the members' cores (`disturbed_cycles`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from rnnbench.records.record import Record, run_value
from rnnbench.records.turns import Turns, disturbed_cycles

LEAST_CYCLES = 5  # that two members have in common


def effects_of(records: Iterable[Record]) -> dict[str, float]:
    """Record key → its effect (log seconds per step, relative to the others of its round), for
    runs that trained in turns and have enough cycles. `records`: all records of their rounds."""
    rounds: dict[str, dict[str, Turns]] = {}
    for record in records:
        if record.round is not None and record.round.in_turns:
            rounds.setdefault(record.round.id, {})[record.key] = record.turns
    return {key: effect for members in rounds.values() for key, effect in effects(members).items()}


def relative_values(records: Sequence[Record]) -> dict[str, float]:
    """Record key → what repeats of a configuration are compared by, for runs that are not void: the
    duration of its steps relative to its round's, or its seconds per epoch if it has no effect."""
    found = effects_of(records)
    return {
        record.key: float(np.exp(found[record.key]))
        if record.key in found
        else run_value([epoch.seconds for epoch in record.epochs])
        for record in records
        if record.verdict.status != "void" and record.epochs
    }


def effects(members: Mapping[str, Turns]) -> dict[str, float]:
    """Member → its effect, for members with at least `LEAST_CYCLES` undisturbed cycles in common
    with another member. If disturbed cycles leave members out, all cycles count."""
    everyone = _effects(members, frozenset())
    if not (disturbed := disturbed_cycles(members)):
        return everyone
    undisturbed = _effects(members, disturbed)
    return undisturbed if set(undisturbed) == set(everyone) else everyone


def _effects(members: Mapping[str, Turns], disturbed: frozenset[int]) -> dict[str, float]:
    logs = _logs(members, disturbed)
    names, count = list(members), len(members)
    medians, common = np.zeros((count, count)), np.zeros((count, count))
    for index, own in enumerate(logs):
        differences = own - logs
        common[index] = (~np.isnan(differences)).sum(axis=1)
        compared = common[index] >= LEAST_CYCLES
        medians[index, compared] = np.nanmedian(differences[compared], axis=1)
    np.fill_diagonal(common, 0)
    weights = np.where(common >= LEAST_CYCLES, common, 0)
    compared = _largest_group(weights > 0)
    if len(compared) < 2:
        return {}
    weights = weights[np.ix_(compared, compared)]
    laplacian = np.diag(weights.sum(axis=1)) - weights
    totals = (weights * medians[np.ix_(compared, compared)]).sum(axis=1)
    fitted = np.linalg.pinv(laplacian, hermitian=True) @ totals
    return {names[index]: float(effect) for index, effect in zip(compared, fitted, strict=True)}


def _logs(members: Mapping[str, Turns], disturbed: frozenset[int]) -> np.ndarray:
    """Log seconds per step of the members' full turns (members × cycles), NaN for none."""
    last = max((max(turns["cycle"]) for turns in members.values() if turns.get("cycle")), default=0)
    logs = np.full((len(members), last + 1), np.nan)
    for index, turns in enumerate(members.values()):
        if turns.get("cycle"):
            seconds, steps = (np.array(turns[name], float) for name in ("seconds", "steps"))
            full = np.array(turns["full"], bool)
            logs[index, np.array(turns["cycle"])[full]] = np.log(seconds[full] / steps[full])
    logs[:, [cycle for cycle in disturbed if cycle <= last]] = np.nan
    return logs


def _largest_group(linked: np.ndarray) -> list[int]:
    """The indices of the largest set of members that are compared with each other, directly or by
    way of others. `linked`: members × members."""
    largest: list[int] = []
    left = set(range(len(linked)))
    while left:
        group, found = set(), {left.pop()}
        while found:
            group |= found
            found = {int(j) for i in found for j in np.flatnonzero(linked[i])} - group
        left -= group
        largest = max(largest, sorted(group), key=len)
    return largest
