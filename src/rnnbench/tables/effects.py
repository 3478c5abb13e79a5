"""Compares the members of a round by its turns: log seconds for each. No side effects.

Two members are compared by the median, over the cycles that count, of the difference of their log
seconds per step. The effects of all members are the least-squares fit to these medians,

    median of (member i - member j)  =  effect of i - effect of j,

weighted by the number of common cycles, so that a / b times b / c is a / c. (Tukey's median polish
is biased towards 0 with an odd number of members.) A cycle counts unless other processes used the
cores in it or the machine was slowed down, as long as enough others remain.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

import numpy as np
from scipy.sparse.csgraph import connected_components

from rnnbench.records.record import Record, Turns, disturbed_cycles, run_value
from rnnbench.tables import states
from rnnbench.tables.states import SLOWED_READS, SLOWED_STEPS, Source, State

LEAST_CYCLES = 5  # that two members have in common
LEAST_UNDISTURBED = 10  # cycles of a round, for the others not to count
PARTLY = 0.2  # share of cycles that the reads show to be slowed, above which a round is so
SATURATED = 0.2  # more slowness changes ratios no further
LOWEST = 0.05  # quantile of the reads
Levels = Mapping[Source, float]  # the lowest twentieth of the log reads of each source


class Effect(NamedTuple):
    """What the turns of a round say about a member.

    - `log`: natural logarithm of the seconds of its epochs, which differ within the round as the
      turns do. Missing if it has too few cycles in common with others.
    - `state` of its round (`State`), and `slowness`: of the cycles that count, if it is `SLOWED`.
    """

    log: float = math.nan
    state: int = State.QUIET
    slowness: float = 0.0

    @property
    def is_known(self) -> bool:
        return not math.isnan(self.log)


@dataclass(frozen=True)
class Round:
    """A round: record key → record of its `members`; `logs`: log seconds per step of their turns
    (members × cycles), NaN for no turn; masks of its cycles: `seen` (with a turn), `disturbed`
    (other processes used the cores), `slowed` (the machine was) and `counts` (compared); `lowest`:
    see `Levels`."""

    members: Mapping[str, Record]
    logs: np.ndarray
    seen: np.ndarray
    disturbed: np.ndarray
    slowed: np.ndarray
    counts: np.ndarray
    state: State
    slowness: float
    lowest: Levels


def examined(records: Iterable[Record], levels: Levels | None = None) -> list[Round]:
    """The rounds in turns of `records`, without void ones. `levels`: those of other rounds."""
    rounds: dict[str, dict[str, Record]] = {}
    for record in records:
        if record.verdict.status == "void":
            continue
        if record.round.in_turns:
            rounds.setdefault(record.round.id, {})[record.key] = record
    lowest = {name: _lowest_reads(members) for name, members in rounds.items()}
    of_all = dict(levels or {})
    for own in lowest.values():
        for source, level in own.items():
            of_all[source] = min(level, of_all.get(source, level))
    return [_examined(members, lowest[name], of_all) for name, members in rounds.items()]


def _lowest_reads(members: Mapping[str, Record]) -> dict[Source, float]:
    reads: dict[Source, list[float]] = {}
    for record in members.values():
        known = [each for each in record.turns.get("reads", ()) if each is not None]
        if known:
            reads.setdefault(states.source_of(record), []).extend(known)
    return {source: math.log(float(np.quantile(own, LOWEST))) for source, own in reads.items()}


def _examined(members: Mapping[str, Record], lowest: Levels, levels: Levels) -> Round:
    turns = {key: record.turns for key, record in members.items()}
    logs = _logs(turns)
    slower_reads = np.full(logs.shape, np.nan)
    for row, record in zip(slower_reads, members.values(), strict=True):
        source = states.source_of(record)
        if source in lowest and record.turns.get("reads"):
            reads = np.log(np.array(record.turns["reads"], float))
            row[record.turns["cycle"]] = reads - states.undisturbed(source, levels[source])
    by_steps, by_reads = states.slowness(logs, slower_reads)
    seen = ~np.isnan(logs).all(axis=0)
    disturbed = seen & _disturbed(turns, logs)
    slowed = seen & ((by_reads > SLOWED_READS) | (by_steps > SLOWED_STEPS))
    counts = seen & ~disturbed & ~slowed
    state, slowness = State.QUIET, 0.0
    if counts.sum() >= LEAST_UNDISTURBED:
        if (seen & (by_reads > SLOWED_READS)).sum() > PARTLY * seen.sum():
            state = State.PARTLY_SLOWED
    else:
        counts = seen & ~disturbed if _is_enough(logs, ~disturbed) else seen
        slow = float(np.median(np.maximum(by_steps, by_reads)[counts])) if counts.any() else 0.0
        if 2 * (counts & disturbed).sum() > counts.sum():
            slow = SATURATED
        if slow > SLOWED_READS:
            state, slowness = State.SLOWED, min(slow, SATURATED)
    return Round(members, logs, seen, disturbed, slowed, counts, state, slowness, lowest)


def effects_in(own: Round) -> dict[str, Effect]:
    """Record key → its effect, for the members of a round that can be compared."""
    keys, levels = list(own.members), []
    fitted = {keys[index]: log for index, log in _fitted(own.logs, own.counts).items()}
    for key, log in fitted.items():
        record = own.members[key]
        if record.epochs:
            seconds = run_value([epoch.seconds for epoch in record.epochs])
            levels.append(math.log(seconds) + _relative(record.turns, own.counts) - log)
    level = fmean(levels) if levels else math.nan
    return {key: Effect(log + level, own.state, own.slowness) for key, log in fitted.items()}


def effects_of(records: Iterable[Record]) -> dict[str, Effect]:
    """Record key → its effect, for runs that trained in turns. `records`: all of their rounds."""
    found = [effects_in(own) for own in examined(records)]
    return {key: effect for own in found for key, effect in own.items()}


def effects(members: Mapping[str, Turns]) -> dict[str, float]:
    """Member → log seconds per step relative to the other members, from all undisturbed cycles, for
    members with at least `LEAST_CYCLES` cycles in common with another member."""
    logs, names = _logs(members), list(members)
    disturbed = _disturbed(members, logs)
    counts = ~disturbed if _is_enough(logs, ~disturbed) else np.full(len(disturbed), True)
    return {names[index]: log for index, log in _fitted(logs, counts).items()}


def _disturbed(members: Mapping[str, Turns], logs: np.ndarray) -> np.ndarray:
    return np.isin(np.arange(logs.shape[1]), list(disturbed_cycles(members)))


def _is_enough(logs: np.ndarray, counts: np.ndarray) -> bool:
    """Whether as many members can be compared by the cycles that count as by all."""
    return np.array_equal(_compared(_common(logs)), _compared(_common(logs[:, counts])))


def _relative(turns: Turns, counts: np.ndarray) -> float:
    """The log of the mean seconds per step of the turns that count / of all turns."""
    seconds, steps, full = (np.array(turns[name]) for name in ("seconds", "steps", "full"))
    kept = full & counts[np.array(turns["cycle"])]
    mean = seconds[kept].sum() / steps[kept].sum()
    return math.log(mean / (seconds[full].sum() / steps[full].sum()))


def _logs(members: Mapping[str, Turns]) -> np.ndarray:
    """Log seconds per step of the members' full turns (members × cycles), NaN for none."""
    last = max((max(turns["cycle"]) for turns in members.values() if turns.get("cycle")), default=0)
    logs = np.full((len(members), last + 1), np.nan)
    for row, turns in zip(logs, members.values(), strict=True):
        if turns.get("cycle"):
            columns = ("cycle", "seconds", "steps", "full")
            cycle, seconds, steps, full = (np.array(turns[name]) for name in columns)
            row[cycle[full]] = np.log(seconds[full] / steps[full])
    return logs


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


def _fitted(logs: np.ndarray, counts: np.ndarray) -> dict[int, float]:
    """Index of a member → its effect, from the cycles that count."""
    common = _common(logs[:, counts])
    compared = _compared(common)
    if not len(compared):
        return {}
    weights = common[np.ix_(compared, compared)]
    own = logs[compared][:, counts]
    medians = np.zeros_like(weights)
    for index, row in enumerate(own):
        for other in np.flatnonzero(weights[index]):
            medians[index, other] = np.nanmedian(row - own[other])
    laplacian = np.diag(weights.sum(axis=1)) - weights
    fitted = np.linalg.pinv(laplacian, hermitian=True) @ (weights * medians).sum(axis=1)
    return dict(zip(compared.tolist(), fitted.tolist(), strict=True))
