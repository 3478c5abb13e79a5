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

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

import numpy as np
from scipy.sparse.csgraph import connected_components

from rnnbench.records.record import Record, run_value
from rnnbench.records.turns import Turns, disturbed_cycles

LEAST_CYCLES = 5  # that two members have in common


def members_of_rounds(records: Iterable[Record]) -> list[dict[str, Turns]]:
    """For each round in turns: record key → turns of its members."""
    rounds: dict[str, dict[str, Turns]] = {}
    for record in records:
        if record.round is not None and record.round.in_turns:
            rounds.setdefault(record.round.id, {})[record.key] = record.turns
    return list(rounds.values())


def effects_of(records: Iterable[Record]) -> dict[str, float]:
    """Record key → its effect (log seconds per step, relative to the others of its round), for
    runs that trained in turns and have enough cycles. `records`: all records of their rounds."""
    rounds = map(effects, members_of_rounds(records))
    return {key: effect for found in rounds for key, effect in found.items()}


def values_of(records: Iterable[Record]) -> dict[str, float]:
    """Record key → seconds per epoch, for runs that are not void."""
    return {
        record.key: run_value([epoch.seconds for epoch in record.epochs])
        for record in records
        if record.verdict.status != "void" and record.epochs
    }


def relative_values(records: Sequence[Record], found: Mapping[str, float]) -> dict[str, float]:
    """Record key → what repeats of a configuration are compared by, for runs that are not void: the
    duration of its steps relative to its round's, or its seconds per epoch if it has no effect.
    `found`: the `effects_of` the records."""
    return {
        key: math.exp(found[key]) if key in found else seconds
        for key, seconds in values_of(records).items()
    }


def scales_of(records: Sequence[Record], found: Mapping[str, float]) -> dict[str, float]:
    """Record key → what to multiply the seconds of its epochs by, so that the ratios within a round
    are those of its turns and the geometric mean of the round is unchanged. Only runs that are not
    void and have an effect (`found`: the `effects_of` the records) have an entry."""
    seconds = values_of(records)
    scales: dict[str, float] = {}
    for members in members_of_rounds(records):
        excess = {key: found[key] - math.log(seconds[key])
                  for key in members if key in found and key in seconds}  # fmt: skip
        scales |= {key: math.exp(own - fmean(excess.values())) for key, own in excess.items()}
    return scales


def effects(members: Mapping[str, Turns]) -> dict[str, float]:
    """Member → its effect, for members with at least `LEAST_CYCLES` cycles in common with another
    member, without the cycles that are `left_out`."""
    return _effects(members, left_out(members))


def left_out(members: Mapping[str, Turns]) -> frozenset[int]:
    """The disturbed cycles; none if a member could then not be compared any more."""
    disturbed = disturbed_cycles(members)
    if not disturbed or set(_effects(members, disturbed)) == set(_effects(members, frozenset())):
        return disturbed
    return frozenset()


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
    compared = _largest_set(weights > 0)
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


def _largest_set(linked: np.ndarray) -> np.ndarray:
    """The indices of the largest set of members that are compared with each other, directly or by
    way of others. `linked`: members × members."""
    sets = connected_components(linked, directed=False)[1]
    return np.flatnonzero(sets == np.bincount(sets, minlength=1).argmax())
