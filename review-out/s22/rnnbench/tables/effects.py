"""Compares the members of a round: one number for each, from its turns. No side effects.

Two members are compared by the median, over their common cycles, of the difference of their log
seconds per step. The effects of all members are the least-squares fit to these medians,

    median of (member i - member j)  =  effect of i - effect of j,

weighted by the number of common cycles, so that they are consistent: a / b times b / c is a / c.
Differences of two turns are unbiased with any number of members; Tukey's median polish is biased
towards 0 with an odd number, because the member in the middle *is* the level of its cycle.

The duration of the random reads is a covariate of the turns (`_slope`), and the slowness of the
machine (`states`) one of the rounds. See ``docs/measurement.md`` for the method, and
``benchmarks/calibration.py`` for its test on simulated machines.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

import numpy as np
from scipy.sparse.csgraph import connected_components

from rnnbench.records.record import Record, Turns, disturbed_cycles, run_value
from rnnbench.tables import states
from rnnworker.processors import BYTES

LEAST_CYCLES = 5  # that two members have in common
LEAST_UNDISTURBED = 10  # cycles of a round, for the others not to be compared
STEEPEST = 1.0  # slope of log seconds in log seconds of the reads
ITERATIONS = 5  # the slope and the medians of members depend on each other
KNOWN_FROM = (1, 26)  # NumPy of `processors.KNOWN`


class Effect(NamedTuple):
    """How long a member's steps took.

    - `effect`: natural logarithm of the seconds on the undisturbed machine, relative to the others
      of its round; missing if they have too few cycles in common.
    - `scale`: what to multiply the seconds of its epochs by, so that the ratios within a round are
      those of its turns and the geometric mean of the round is that of its undisturbed cycles. If
      the machine was slowed down in the round, it is that of the undisturbed machine. Rounds that
      were not keep their own seconds: the shortest that are known of a configuration are too short
      by chance, and an interval around them is too narrow.
    - `widening`: the factor by which the interval of a mean of effects is wider because the machine
      was slowed down.
    - `slowed`: whether the machine was slowed down in most cycles of its round.
    - `slow_effect`: relative to the others, from the cycles in which the machine was slowed down;
      missing if they are too few.
    - `slow_cycles`, `cycles`: the number of these, and of all cycles of the round.
    """

    effect: float = math.nan
    scale: float = 1.0
    widening: float = 1.0
    slowed: bool = False
    slow_effect: float = math.nan
    slow_cycles: int = 0
    cycles: int = 0

    @property
    def is_known(self) -> bool:
        return not math.isnan(self.effect)


class Conditions(NamedTuple):
    """A round under the conditions of the machine.

    - `members`: record key → turns; `configurations`: of the members.
    - `logs`: log seconds per step of their turns (members × cycles) without what the random reads
      explain, NaN for no turn.
    - `disturbed`: the cycles in which other processes used the cores; `left_out`: the same, or none
      if too few others are left; `lacking`: the time that other processes used in the rest, as a
      slowness.
    - `slowness`: of its cycles.
    """

    members: Mapping[str, Turns]
    configurations: Sequence[str]
    logs: np.ndarray
    disturbed: frozenset[int]
    left_out: frozenset[int]
    lacking: float
    slowness: states.Slowness

    @property
    def cycles(self) -> np.ndarray:
        """The cycles with a turn."""
        return np.flatnonzero(~np.isnan(self.slowness.steps))

    @property
    def slowed(self) -> frozenset[int]:
        """The cycles in which the machine was slowed down and that are not left out."""
        is_slowed = self.slowness.machine > math.log(states.SLOWED)
        return frozenset(np.flatnonzero(is_slowed).tolist()) - self.left_out

    @property
    def not_compared(self) -> frozenset[int]:
        """Those left out, and the slowed ones if `LEAST_UNDISTURBED` others remain."""
        both = self.left_out | self.slowed
        is_enough = len(set(self.cycles.tolist()) - both) >= LEAST_UNDISTURBED
        return both if is_enough else self.left_out

    def median(self, slowness: np.ndarray) -> float:
        """Of the cycles that are compared, at least 0."""
        kept = slowness[np.setdiff1d(self.cycles, list(self.not_compared))]
        return max(0.0, float(np.median(kept))) if len(kept) else 0.0

    @property
    def is_slowed(self) -> bool:
        """Whether the machine was slowed down in most of the cycles that are compared, or other
        processes used the cores in most of all."""
        others = len(self.disturbed - self.left_out)
        slow = max(self.lacking, self.median(self.slowness.machine))
        return slow > math.log(states.SLOWED) or 2 * others > len(self.cycles)


def conditions_of(records: Iterable[Record]) -> list[Conditions]:
    """The conditions of each round in turns."""
    rounds: dict[str, dict[str, Record]] = {}
    for record in records:
        if record.round is not None and record.round.in_turns:
            rounds.setdefault(record.round.id, {})[record.key] = record
    turns = [{key: record.turns for key, record in own.items()} for own in rounds.values()]
    seen = [
        states.Round(
            [f"{record.machine}/{record.run.configuration}" for record in own.values()],
            list(map(_source, own.values())),
            _logs(members),
            _reads(members),
        )
        for members, own in zip(turns, rounds.values(), strict=True)
    ]
    levels = states.lowest([own.reads for own in seen], [own.configurations for own in seen])
    found = []
    for members, own, slow in zip(turns, seen, states.slowness(seen), strict=True):
        undisturbed = np.array([levels[name][0] for name in own.configurations])[:, None]
        slower = own.reads - undisturbed
        alike = own.logs - np.nan_to_num(_slope(own.logs, slower) * slower)
        disturbed = disturbed_cycles(members)
        left_out = _left_out(disturbed, own.logs)
        lacking = _lacking(members, left_out)
        found.append(
            Conditions(members, own.configurations, alike, disturbed, left_out, lacking, slow)
        )
    return found


def effects_of(records: Iterable[Record]) -> dict[str, Effect]:
    """Record key → its effect, for runs that trained in turns. `records`: all records of their
    rounds, and of the same configurations in other rounds, by which it is known how much these were
    slowed down."""
    records = list(records)
    seconds, found = _seconds_of(records), {}
    # Log of the seconds on the undisturbed machine relative to all of a member's turns, by round.
    undisturbed: list[dict[str, float]] = []
    # Configurations → slowness, lacking time and configuration → record key of each round.
    alike: dict[tuple[str, ...], list[tuple[float, float, dict[str, str]]]] = {}
    for state in conditions_of(records):
        keys, left_out = list(state.members), state.not_compared
        fitted = _fitted(_without(state.logs, left_out))
        slowed, is_slowed, cycles = state.slowed, state.is_slowed, state.cycles
        found.update(dict.fromkeys(keys, Effect(slowed=is_slowed)))
        if not fitted:
            continue
        slow_logs = _fitted(_without(state.logs, set(cycles) - slowed)) if slowed else {}
        level = state.median(state.slowness.steps) if is_slowed else 0.0
        relative = {}
        for index, log in fitted.items():
            key, slow_log = keys[index], slow_logs.get(index, math.nan)
            relative[key] = _relative(state.members[key], left_out) - level
            found[key] = Effect(log, 1.0, 1.0, is_slowed, slow_log, len(slowed), len(cycles))
        undisturbed.append({key: log for key, log in relative.items() if key in seconds})
        compared = {state.configurations[index]: keys[index] for index in fitted}
        slow = state.median(state.slowness.machine)
        alike.setdefault(tuple(sorted(compared)), []).append((slow, state.lacking, compared))
    for group, alike_rounds in alike.items():
        slows, lackings, keys_of = zip(*alike_rounds, strict=True)
        logs = np.array([[found[own[name]].effect for own in keys_of] for name in group])
        adjusted, widening = states.covariance(logs, np.array(slows), fmean(lackings))
        for name, row in zip(group, adjusted.tolist(), strict=True):
            for own, log in zip(keys_of, row, strict=True):
                found[own[name]] = found[own[name]]._replace(effect=log, widening=widening)
    for relative in filter(None, undisturbed):
        excess = {key: found[key].effect - math.log(seconds[key]) for key in relative}
        level = fmean(relative.values()) - fmean(excess.values())
        for key, log in excess.items():
            found[key] = found[key]._replace(scale=math.exp(log + level))
    return found


def effects(members: Mapping[str, Turns]) -> dict[str, float]:
    """Member → the log of its effect under the conditions of the round, for members with at least
    `LEAST_CYCLES` cycles in common with another member."""
    logs, names = _logs(members), list(members)
    fitted = _fitted(_without(logs, _left_out(disturbed_cycles(members), logs)))
    return {names[index]: log for index, log in fitted.items()}


def relative_values(records: Iterable[Record], found: Mapping[str, Effect]) -> dict[str, float]:
    """Record key → what repeats of a configuration are compared by, for runs that are not void: the
    duration of its steps relative to its round's, or its seconds per epoch if it has no effect.
    `found`: the `effects_of` the records."""
    return {
        key: math.exp(found[key].effect) if key in found and found[key].is_known else seconds
        for key, seconds in _seconds_of(records).items()
    }


def _seconds_of(records: Iterable[Record]) -> dict[str, float]:
    """Record key → seconds per epoch, for runs that are not void."""
    return {
        record.key: run_value([epoch.seconds for epoch in record.epochs])
        for record in records
        if record.verdict.status != "void" and record.epochs
    }


def _slope(logs: np.ndarray, reads: np.ndarray) -> float:
    """Log seconds of steps per log seconds of reads (relative to undisturbed ones), by least
    absolute deviations of all pairs of turns of a cycle, each pair of members with a level of its
    own; between 0 and `STEEPEST`."""
    one, other = np.triu_indices(len(logs), 1)
    steps, slower = logs[one] - logs[other], reads[one] - reads[other]
    seen = ~np.isnan(steps + slower) & (slower != 0)
    slope, weights = 0.0, np.abs(slower[seen])
    for _ in range(ITERATIONS if seen.any() else 0):
        level = states.medians(steps - slope * slower, (1,))[:, None]
        slopes = (steps - level)[seen] / slower[seen]
        order = np.argsort(slopes)
        half = np.searchsorted(np.cumsum(weights[order]), weights.sum() / 2)
        slope = min(max(0.0, float(slopes[order][half])), STEEPEST)
    return slope


def _lacking(members: Mapping[str, Turns], left_out: Collection[int]) -> float:
    """The time that other processes used on the members' cores in the cycles that are not left out,
    as a slowness: minus the log of the share that remained for the members."""
    used = cores_seconds = 0.0
    for turns in members.values():
        columns = (turns.get(name, ()) for name in ("cycle", "others", "took", "cores"))
        for cycle, others, took, cores in zip(*columns, strict=False):
            if cycle not in left_out and None not in (others, took, cores):
                used, cores_seconds = used + others, cores_seconds + cores * took
    return -math.log1p(-min(max(0.0, used / cores_seconds), 0.9)) if cores_seconds else 0.0


def _left_out(disturbed: frozenset[int], logs: np.ndarray) -> frozenset[int]:
    """The disturbed cycles, unless a member could then not be compared any more."""
    rest = _compared(_common(_without(logs, disturbed)))
    is_enough = np.array_equal(rest, _compared(_common(logs)))
    return disturbed if is_enough else frozenset()


def _relative(turns: Turns, left_out: frozenset[int]) -> float:
    """The log of the mean seconds per step of the turns that are not left out / of all turns."""
    columns = ("seconds", "steps", "full", "cycle")
    seconds, steps, full, cycle = (np.array(turns[name]) for name in columns)
    kept = full & ~np.isin(cycle, list(left_out))
    means = [float(seconds[of].sum() / steps[of].sum()) for of in (kept, full)]
    return math.log(means[0] / means[1])


def _source(record: Record) -> states.Source:
    choices, hardware = record.run.choices, record.hardware
    numpy = tuple(map(int, re.findall(r"\d+", str(record.environment.get("numpy")))[:2]))
    return states.Source(
        record.machine,
        str(hardware.get("processor")) if numpy >= KNOWN_FROM else "",
        record.measured.get("reads_bytes") or BYTES,  # before 2026-11-26, everywhere
        choices.get("build", ""),
        choices.get("device", ""),
    )


def _reads(members: Mapping[str, Turns]) -> np.ndarray:
    """Log seconds of the random reads after the members' turns (members × cycles), NaN for none."""
    logs = _empty(members)
    for row, turns in zip(logs, members.values(), strict=True):
        if turns.get("reads"):
            row[turns["cycle"]] = np.log(np.array(turns["reads"], float))
    return logs


def _empty(members: Mapping[str, Turns]) -> np.ndarray:
    last = max((max(turns["cycle"]) for turns in members.values() if turns.get("cycle")), default=0)
    return np.full((len(members), last + 1), np.nan)


def _logs(members: Mapping[str, Turns]) -> np.ndarray:
    """Log seconds per step of the members' full turns (members × cycles), NaN for none."""
    logs = _empty(members)
    for row, turns in zip(logs, members.values(), strict=True):
        if turns.get("cycle"):
            columns = ("cycle", "seconds", "steps", "full")
            cycle, seconds, steps, full = (np.array(turns[name]) for name in columns)
            row[cycle[full]] = np.log(seconds[full] / steps[full])
    return logs


def _without(logs: np.ndarray, cycles: Collection[int]) -> np.ndarray:
    return np.where(np.isin(np.arange(logs.shape[1]), list(cycles)), np.nan, logs)


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
