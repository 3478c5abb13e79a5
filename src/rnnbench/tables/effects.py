"""Compares the members of a round by its turns: log seconds for each; and makes of a record and its
effect the value of a run, the only form between a record and a ratio. No side effects.

Two members are compared by the median, over the cycles that count, of the difference of their log
seconds per step. The effects of all members are the least-squares fit to these medians,

    median of (member i - member j)  =  effect of i - effect of j,

weighted by the number of common cycles, so that a / b times b / c is a / c. (Tukey's median polish
is biased towards 0 with an odd number of members.) A cycle counts unless other processes used the
cores in it or the machine was slowed down, as long as enough others remain.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse.csgraph import connected_components

from rnnbench.records import timestamps
from rnnbench.records.record import Record, Turns, disturbed_cycles, run_seconds
from rnnbench.tables import states
from rnnbench.tables.states import SLOWED_READS, SLOWED_STEPS, Source, State

LEAST_CYCLES = 5  # that two members have in common
LEAST_UNDISTURBED = 10  # cycles of a round, for the others not to count
PARTLY = 0.2  # share of cycles that the reads show to be slowed, above which a round is so
SATURATED = 0.2  # more slowness changes ratios no further
LOWEST = 0.05  # quantile of the reads
Levels = Mapping[Source, float]  # the lowest twentieth of the log reads of each source
Logs = np.ndarray  # log seconds per step (members × cycles), NaN for no turn
Mask = np.ndarray  # of cycles: whether it is one of those that are meant


class Effect(NamedTuple):
    """What the turns of a round say about a member.

    - `log`: natural logarithm of the seconds of its epochs, which differ within the round as the
      turns do. Missing if it has too few cycles in common with others.
    - `state` of its round (`State`).
    - `slowness` of the cycles that count, if the round is `SLOWED` (natural logarithm).
    """

    log: float = math.nan
    state: int = State.QUIET
    slowness: float = 0.0

    @property
    def is_known(self) -> bool:
        """Whether the member can be compared with others."""
        return not math.isnan(self.log)


class RunValue(NamedTuple):
    """A run that is not void.

    - `key`: its configuration; `device`: the spread is pooled over the configurations of one.
    - `log`: natural logarithm of the seconds of an epoch, by turns if it trained `in_turns`
      (`effects.Effect`).
    - `block`: the runs of one seed and repeat, which were measured after each other.
    - `unit`: what it is compared within, its round or its block.
    - `machine`, and the moment it `started` (seconds since the epoch).
    - `is_companion`: it only serves the ratios of others; `state`, `slowness`: of its round.
    """

    key: Any
    device: Any
    log: float
    unit: str
    machine: str
    started: float
    is_companion: bool = False
    in_turns: bool = False
    state: int = State.QUIET
    slowness: float = 0.0
    block: str = ""

    @property
    def seconds(self) -> float:
        """Seconds of an epoch."""
        return math.exp(self.log)

    def with_seconds(self, seconds: float) -> RunValue:
        """The same run with the `seconds` of something that was not measured in turns."""
        return self._replace(
            log=math.log(seconds),
            unit=self.block,
            in_turns=False,
            state=State.QUIET,
            slowness=0.0,
        )


@dataclass(frozen=True)
class Round:
    """A round, examined.

    - `members`: record key → record.
    - `logs` of their turns.
    - Masks of its cycles: `seen` (with a turn), `disturbed` (other processes used the cores),
      `slowed` (the machine was) and `counts` (compared).
    - `state`, `slowness`: see `Effect`.
    - `lowest`: see `Levels`.
    """

    members: Mapping[str, Record]
    logs: Logs
    seen: Mask
    disturbed: Mask
    slowed: Mask
    counts: Mask
    state: State
    slowness: float
    lowest: Levels


def examined(records: Iterable[Record], levels: Levels | None = None) -> list[Round]:
    """The rounds in turns, without void members.

    - `records`: those of the rounds; others are ignored.
    - `levels`: the lowest reads of further rounds; None for no further rounds.
    """
    rounds: dict[str, dict[str, Record]] = defaultdict(dict)
    for record in records:
        if record.round.in_turns and record.verdict.status != "void":
            rounds[record.round.id][record.key] = record

    lowest = {name: _lowest_reads(members) for name, members in rounds.items()}
    lowest_of_all = lowest_of([levels or {}, *lowest.values()])
    return [_examined(rounds[name], lowest[name], lowest_of_all) for name in rounds]


def lowest_of(rounds: Iterable[Levels]) -> dict[Source, float]:
    """The lowest reads of each source in all `rounds`."""
    lowest: dict[Source, float] = {}
    for levels in rounds:
        for source, level in levels.items():
            lowest[source] = min(level, lowest.get(source, level))
    return lowest


def _lowest_reads(members: Mapping[str, Record]) -> Levels:
    """The lowest reads of a round, by source: natural logarithms of seconds.

    `members`: record key → record.
    """
    reads = defaultdict(list)
    for record in members.values():
        source = states.source_of(record)
        for seconds in record.turns.get("reads", ()):
            if seconds is not None:
                reads[source].append(seconds)
    lowest = {}
    for source, of_source in reads.items():
        lowest[source] = math.log(np.quantile(of_source, LOWEST))
    return lowest


def _examined(members: Mapping[str, Record], lowest: Levels, levels: Levels) -> Round:
    """A round, examined.

    - `members`: record key → record.
    - `lowest`: the lowest reads of this round.
    - `levels`: the lowest reads of this and all other rounds.
    """
    turns = {key: record.turns for key, record in members.items()}
    logs = _logs(turns)
    slower_reads = np.full(logs.shape, np.nan)
    for index, record in enumerate(members.values()):
        source = states.source_of(record)
        if source in lowest and record.turns.get("reads"):
            reads = np.log(np.array(record.turns["reads"], float))
            undisturbed = states.undisturbed(source, levels[source])
            slower_reads[index, record.turns["cycle"]] = reads - undisturbed

    by_steps, by_reads = states.slowness(logs, slower_reads)
    seen = ~np.isnan(logs).all(axis=0)
    disturbed = seen & _disturbed(turns, logs)
    slowed_reads = seen & (by_reads > SLOWED_READS)
    slowed_steps = seen & (by_steps > SLOWED_STEPS)
    slowed = slowed_reads | slowed_steps
    counts = seen & ~disturbed & ~slowed

    state = State.QUIET
    slowness = 0.0
    if counts.sum() >= LEAST_UNDISTURBED:
        if slowed_reads.sum() > PARTLY * seen.sum():
            state = State.PARTLY_SLOWED
    else:
        counts = seen & _unless_too_few(logs, ~disturbed)
        slow = 0.0
        if counts.any():
            slow = float(np.median(np.maximum(by_steps, by_reads)[counts]))
        if 2 * (counts & disturbed).sum() > counts.sum():
            slow = SATURATED
        if slow > SLOWED_READS:
            state = State.SLOWED
            slowness = min(slow, SATURATED)

    return Round(
        members=members,
        logs=logs,
        seen=seen,
        disturbed=disturbed,
        slowed=slowed,
        counts=counts,
        state=state,
        slowness=slowness,
        lowest=lowest,
    )


def effects_in(own: Round) -> dict[str, Effect]:
    """Record key → its effect, for the members of a round that can be compared."""
    fitted = _fitted(own.members, own.logs, own.counts)
    levels = []
    for key, log in fitted.items():
        record = own.members[key]
        if record.epochs:
            value = run_seconds([epoch.seconds for epoch in record.epochs])
            # The mean seconds per step of the turns that count / of the turns of the epochs.
            cycle, seconds, steps = _full_turns(record.turns)
            kept = own.counts[cycle]
            mean_of_kept = seconds[kept].sum() / steps[kept].sum()
            of_epochs = _is_of_epochs(record)
            mean = seconds[of_epochs].sum() / steps[of_epochs].sum()
            levels.append(math.log(value) + math.log(mean_of_kept / mean) - log)
    level = math.nan
    if levels:
        level = fmean(levels)
    return {key: Effect(log + level, own.state, own.slowness) for key, log in fitted.items()}


def effects_of(records: Iterable[Record]) -> dict[str, Effect]:
    """Record key → its effect, for runs that trained in turns.

    `records`: all of their rounds, because a member is compared with the others.
    """
    found = {}
    for own in examined(records):
        found.update(effects_in(own))
    return found


def key_of(machine: str, configuration: str) -> str:
    """The key of a configuration in the estimates of a plan, which has no tables."""
    return f"{machine}/{configuration}"


def run_value(record: Record, effect: Effect) -> RunValue | None:
    """What the estimates use of a `record` and its `effect` within its round.

    The value of a run with an effect is relative to its round. Any other run is represented by the
    seconds of its epochs, and compared within its seed and repeat. (Not within the number of its
    block in the plan, which changes if an experiment is extended.)

    None if the record is void or has no epoch, or is of a companion without an effect.
    """
    if record.verdict.status == "void" or not record.epochs:
        return None
    if record.is_companion and not effect.is_known:
        return None

    run = record.run
    block = f"{record.machine}/{record.site}/{record.experiment}/s{run.seed}-r{run.repeat}"
    if effect.is_known:
        log = effect.log
        unit = record.round_id
    else:
        log = math.log(run_seconds([epoch.seconds for epoch in record.epochs]))
        unit = block
    return RunValue(
        key=key_of(record.machine, run.configuration),
        device=f"{record.machine}/{run.choices.get('model')}/{run.choices.get('device')}",
        log=log,
        unit=unit,
        machine=record.machine,
        started=timestamps.read(record.started).timestamp(),
        is_companion=record.is_companion,
        in_turns=effect.is_known,
        state=effect.state,
        slowness=effect.slowness,
        block=block,
    )


def effects(members: Mapping[str, Turns]) -> dict[str, float]:
    """Member → log seconds per step relative to the other members, from all undisturbed cycles.

    `members`: the turns of each member of a round.

    Members without `LEAST_CYCLES` cycles in common with another member are left out.
    """
    logs = _logs(members)
    counts = _unless_too_few(logs, ~_disturbed(members, logs))
    return _fitted(members, logs, counts)


def _disturbed(members: Mapping[str, Turns], logs: Logs) -> Mask:
    """The mask of the cycles in which other processes used the cores."""
    cycles = np.arange(logs.shape[1])
    return np.isin(cycles, list(disturbed_cycles(members)))


def _unless_too_few(logs: Logs, counts: Mask) -> Mask:
    """Which cycles to compare members by.

    - `logs`: log seconds per step.
    - `counts`: the cycles that are to count.

    Returns `counts`, or a mask of all cycles if more members can be compared by all of them.
    """
    by_all = _compared(_common(logs))
    by_counting = _compared(_common(logs[:, counts]))
    if np.array_equal(by_all, by_counting):
        return counts
    return np.full(len(counts), True)


def _is_of_epochs(record: Record) -> np.ndarray:
    """Whether each full turn of a `record` belongs to the training that has its epochs, and not to
    a further one from the same weights."""
    full = np.array(record.turns["full"])
    starts = np.array(record.turns["start"])[full]
    for phase in record.phases:
        belongs: np.ndarray = starts <= phase.end
        if phase.name == "train" and belongs.any():
            return belongs
    return np.full(len(starts), True)


def _full_turns(turns: Turns) -> list[np.ndarray]:
    """The cycle, the seconds and the steps of each full turn.

    A turn that was cut short is not full.
    """
    full = np.array(turns["full"])
    return [np.array(turns[name])[full] for name in ("cycle", "seconds", "steps")]


def _logs(members: Mapping[str, Turns]) -> Logs:
    """Log seconds per step of the full turns of `members`, in their order."""
    cycles = [0]
    for turns in members.values():
        cycles.extend(turns.get("cycle", []))
    logs = np.full((len(members), max(cycles) + 1), np.nan)
    for index, turns in enumerate(members.values()):
        if turns.get("cycle"):
            cycle, seconds, steps = _full_turns(turns)
            logs[index, cycle] = np.log(seconds / steps)
    return logs


def _common(logs: Logs) -> np.ndarray:
    """The number of cycles that each two members have in common (members × members).

    It is 0 for fewer than `LEAST_CYCLES`, and for a member with itself.
    """
    seen = (~np.isnan(logs)).astype(float)
    common = seen @ seen.T
    np.fill_diagonal(common, 0)
    return np.where(common >= LEAST_CYCLES, common, 0)


def _compared(common: np.ndarray) -> np.ndarray:
    """The indices of the largest set of members that are compared with each other, directly or by
    way of others.

    `common`: the number of cycles in common (members × members).

    Returns no index if the set has one member only.
    """
    sets = connected_components(common > 0, directed=False)[1]
    sizes = np.bincount(sets, minlength=1)
    if sizes.max() < 2:
        return np.array([], int)
    return np.flatnonzero(sets == sizes.argmax())


def _fitted(names: Iterable[str], logs: Logs, counts: Mask) -> dict[str, float]:
    """Name of a member → its effect, from the cycles that count.

    The normal equations of the least-squares fit have the Laplacian of the graph whose edges are
    the pairs of members with enough common cycles. Their solution has the mean 0.

    - `names`: those of the rows of `logs`.
    - `logs`: log seconds per step.
    - `counts`: which cycles count.
    """
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
    inverse = np.linalg.pinv(laplacian, hermitian=True)
    fitted = inverse @ (weights * medians).sum(axis=1)
    compared_names = np.array(list(names))[compared]
    return dict(zip(compared_names.tolist(), fitted.tolist(), strict=True))
