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

A cycle counts unless other processes used the members' cores (`disturbed_cycles`) or the machine
was slowed down from outside (`states`). A round that has too few undisturbed cycles is compared by
its slowed ones and marked.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

import numpy as np
from scipy.sparse.csgraph import connected_components

from rnnbench.records.record import Record, run_value
from rnnbench.records.turns import Turns, disturbed_cycles
from rnnbench.tables.states import Source, slowed_cycles, unequal

LEAST_CYCLES = 5  # that two members have in common
SECONDS = ("seconds", "steps", "full", "cycle")


class Effect(NamedTuple):
    """How long a member's steps took.

    - `log`: natural logarithm of the seconds, relative to the others of its round.
    - `undisturbed`: the same relative to all of its own turns, from the turns that `log` is from.
    - `slowed`: whether its round has too few cycles in which the machine was not slowed.
    - `slow_log`: as `log`, from the cycles in which the machine was slowed; None if they are too
      few.
    - `slow_cycles`, `cycles`: the number of these, and of all cycles of the round.
    """

    log: float
    undisturbed: float = 0.0
    slowed: bool = False
    slow_log: float | None = None
    slow_cycles: int = 0
    cycles: int = 0


class Choice(NamedTuple):
    """The cycles of a round that are not compared: those in which other processes used the cores
    (`disturbed`), and those in which the machine was `slowed`. `is_slowed`: the latter are compared
    nevertheless, because too few others are left."""

    disturbed: frozenset[int]
    slowed: frozenset[int]
    is_slowed: bool

    @property
    def left_out(self) -> frozenset[int]:
        return self.disturbed if self.is_slowed else self.disturbed | self.slowed


def members_of_rounds(records: Iterable[Record]) -> list[dict[str, Turns]]:
    """For each round in turns: record key → turns of its members."""
    rounds: dict[str, dict[str, Turns]] = {}
    for record in records:
        if record.round is not None and record.round.in_turns:
            rounds.setdefault(record.round.id, {})[record.key] = record.turns
    return list(rounds.values())


def choices_of(records: Iterable[Record]) -> list[Choice]:
    """Which cycles of each of the rounds (`members_of_rounds`) are compared."""
    records = list(records)
    rounds = members_of_rounds(records)
    by_key = {record.key: record for record in records}
    companies = [[by_key[key] for key in members] for members in rounds]
    logs = list(map(_logs, rounds))
    names = [[f"{r.machine}/{r.run.configuration}" for r in company] for company in companies]
    sources = [list(map(_source, company)) for company in companies]
    slowed = slowed_cycles(logs, names, list(map(_products, rounds)), sources)
    alike: dict[tuple[str, ...], list[int]] = {}
    for number, configurations in enumerate(names):
        alike.setdefault(tuple(sorted(configurations)), []).append(number)
    for numbers in alike.values():
        ordered = [logs[n][np.argsort(names[n], kind="stable")] for n in numbers]
        if not unequal(ordered, [slowed[n] for n in numbers]):
            for number in numbers:
                slowed[number] = frozenset()
    return list(map(_choice, rounds, logs, slowed))


def effects_of(records: Iterable[Record]) -> dict[str, Effect]:
    """Record key → its effect, for runs that trained in turns and have enough cycles. `records`:
    all records of their rounds, and of the same configurations in other rounds, by which slowed
    cycles are recognized."""
    records = list(records)
    rounds = members_of_rounds(records)
    choices = choices_of(records)
    found: dict[str, Effect] = {}
    for members, choice in zip(rounds, choices, strict=True):
        logs = _logs(members)
        cycles = np.flatnonzero(~np.isnan(logs).all(axis=0))
        slow = choice.slowed - choice.disturbed
        slow_logs = _fitted(_without(logs, set(cycles.tolist()) - slow)) if slow else {}
        for index, log in _fitted(_without(logs, choice.left_out)).items():
            key = list(members)[index]
            found[key] = Effect(
                log,
                _relative(members[key], choice.left_out),
                choice.is_slowed,
                slow_logs.get(index),
                len(slow),
                len(cycles),
            )
    return found


def effects(members: Mapping[str, Turns], slowed: frozenset[int] = frozenset()) -> dict[str, float]:
    """Member → the log of its effect, for members with at least `LEAST_CYCLES` cycles in common
    with another member."""
    logs, names = _logs(members), list(members)
    fitted = _fitted(_without(logs, _choice(members, logs, slowed).left_out))
    return {names[index]: log for index, log in fitted.items()}


def _choice(members: Mapping[str, Turns], logs: np.ndarray, slowed: frozenset[int]) -> Choice:
    """All disturbed cycles are left out unless a member could then not be compared any more, and so
    are the slowed ones. `logs`: of the members' turns."""
    disturbed, compared = disturbed_cycles(members), _compared(_common(logs))
    if not np.array_equal(_compared(_common(_without(logs, disturbed))), compared):
        disturbed = frozenset()
    rest = _compared(_common(_without(logs, disturbed | slowed)))
    return Choice(disturbed, slowed, not np.array_equal(rest, compared))


def _relative(turns: Turns, left_out: frozenset[int]) -> float:
    """The log of the mean seconds per step of the turns that are not left out / of all turns."""
    seconds, steps, full, cycle = (np.asarray(turns[name]) for name in SECONDS)
    full = full.astype(bool)
    kept = full & ~np.isin(cycle, list(left_out))
    means = [float(seconds[of].sum() / steps[of].sum()) for of in (kept, full)]
    return math.log(means[0] / means[1])


def values_of(records: Iterable[Record]) -> dict[str, float]:
    """Record key → seconds per epoch, for runs that are not void."""
    return {
        record.key: run_value([epoch.seconds for epoch in record.epochs])
        for record in records
        if record.verdict.status != "void" and record.epochs
    }


def relative_values(records: Sequence[Record], found: Mapping[str, Effect]) -> dict[str, float]:
    """Record key → what repeats of a configuration are compared by, for runs that are not void: the
    duration of its steps relative to its round's, or its seconds per epoch if it has no effect.
    `found`: the `effects_of` the records."""
    return {
        key: math.exp(found[key].log) if key in found else seconds
        for key, seconds in values_of(records).items()
    }


def scales_of(records: Sequence[Record], found: Mapping[str, Effect]) -> dict[str, float]:
    """Record key → what to multiply the seconds of its epochs by, so that the ratios within a round
    are those of its turns and the geometric mean of the round is that of its undisturbed cycles.
    Only runs that are not void and have an effect (`found`: the `effects_of` the records) have an
    entry."""
    seconds = values_of(records)
    scales: dict[str, float] = {}
    for members in members_of_rounds(records):
        own = [key for key in members if key in found and key in seconds]
        excess = {key: found[key].log - math.log(seconds[key]) for key in own}
        if own:
            level = fmean(found[key].undisturbed for key in own) - fmean(excess.values())
            scales |= {key: math.exp(value + level) for key, value in excess.items()}
    return scales


def _source(record: Record) -> Source:
    choices, hardware = record.run.choices, record.hardware
    return Source(
        record.machine,
        str(hardware.get("processor")),
        choices.get("build", ""),
        choices.get("device", ""),
    )


def _products(members: Mapping[str, Turns]) -> np.ndarray:
    """Log seconds of the fixed product after the members' turns (members × cycles), NaN for
    none."""
    logs = _empty(members)
    for index, turns in enumerate(members.values()):
        if turns.get("cycle") and "product" in turns:
            seconds = np.array([value or math.nan for value in turns["product"]], float)
            logs[index, np.array(turns["cycle"])] = np.log(seconds)
    return logs


def _empty(members: Mapping[str, Turns]) -> np.ndarray:
    last = max((max(turns["cycle"]) for turns in members.values() if turns.get("cycle")), default=0)
    return np.full((len(members), last + 1), np.nan)


def _logs(members: Mapping[str, Turns]) -> np.ndarray:
    """Log seconds per step of the members' full turns (members × cycles), NaN for none."""
    logs = _empty(members)
    for index, turns in enumerate(members.values()):
        if turns.get("cycle"):
            seconds, steps = (np.array(turns[name], float) for name in ("seconds", "steps"))
            full = np.array(turns["full"], bool)
            logs[index, np.array(turns["cycle"])[full]] = np.log(seconds[full] / steps[full])
    return logs


def _without(logs: np.ndarray, cycles: Collection[int]) -> np.ndarray:
    rest = logs.copy()
    rest[:, [cycle for cycle in cycles if cycle < logs.shape[1]]] = np.nan
    return rest


def _common(logs: np.ndarray) -> np.ndarray:
    """The number of cycles that each two members have in common (members × members), 0 if they are
    fewer than `LEAST_CYCLES`."""
    seen = (~np.isnan(logs)).astype(float)
    common = seen @ seen.T
    np.fill_diagonal(common, 0)
    return np.where(common >= LEAST_CYCLES, common, 0)


def _compared(common: np.ndarray) -> np.ndarray:
    """The indices of the largest set of members that are compared with each other, directly or by
    way of others; empty if it has one member only."""
    sets = connected_components(common > 0, directed=False)[1]
    largest = np.flatnonzero(sets == np.bincount(sets, minlength=1).argmax())
    return largest if len(largest) > 1 else largest[:0]


def _fitted(logs: np.ndarray) -> dict[int, float]:
    """Index of a member → the log of its effect."""
    common = _common(logs)
    compared = _compared(common)
    if not len(compared):
        return {}
    weights = common[np.ix_(compared, compared)]
    own = logs[compared][:, ~np.isnan(logs[compared]).all(axis=0)]
    median = np.nanmedian if np.isnan(own).any() else np.median
    medians = np.zeros_like(weights)
    for index, row in enumerate(own):
        is_linked = weights[index] > 0
        medians[index, is_linked] = median(row - own[is_linked], axis=1)
    laplacian = np.diag(weights.sum(axis=1)) - weights
    fitted = np.linalg.pinv(laplacian, hermitian=True) @ (weights * medians).sum(axis=1)
    return dict(zip(compared.tolist(), fitted.tolist(), strict=True))
