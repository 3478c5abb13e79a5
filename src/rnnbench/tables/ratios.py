"""The one estimate of the seconds of configurations and of the ratio of any two: page, tables,
MLflow, terminal, stopping rule, plan and comparison use it. No side effects.

The log seconds of a run are modelled as

    log seconds  =  configuration + unit + noise,

where a unit is a round in turns, or a block of runs that were measured on their own. Least squares
(Fisher, *Statistical Methods for Research Workers*, 1925, two-way analysis) gives the seconds of
each configuration; if all have a run in every unit, these are geometric means. A ratio is always
the quotient of these seconds. Its interval comes from the differences of the pair in their common
units (Student's t), below five repeats possibly with the pooled spread (`_pooled`), and from the
means of the sessions if there are several. Two configurations that have too few common units but
are linked by others get the standard error of the fit, and two that are not linked Welch's
interval.

Rounds in which the machine was slowed down do not count where enough others remain; where only
slowed ones are left, the interval is wider by how unequally members are known to be slowed.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from rnnbench.tables.states import State
from rnnbench.tables.stats import (
    Interval,
    dunnett_quantile,
    is_noisier,
    mean_halfwidth,
    sidak_confidence,
    student_quantile,
    welch_halfwidth,
)

CONFIDENCE = 0.95
MARK = "≠"
PAIRED_FROM = 3  # common blocks if a side has further ones; with two, Student's t is 12.7
POOLED_BELOW = 5  # repeats
POOLED_FROM = 3  # configurations
SESSION_SECONDS = 1800.0
LEAST_SESSIONS = 3
LEAST_ROUNDS = 3  # quiet ones, for others not to count
LEAST_UNDISTURBED = 2  # rounds, for a result not to be called one of a slowed machine
NEGLIGIBLE = 1e-9  # weight of rounds that do not count, by which configurations stay linked
# Standard deviation of how differently the log seconds of members depend on the slowness. Measured
# on two cores in 70 rounds of four members of 2026-11-24: 0.24 on one core, 0.09 on two.
UNEQUAL = 0.24
Key = Hashable


class Basis(Enum):
    """What the interval of a ratio is from."""

    IN_TURNS = "rounds in turns"
    PAIRED = "common blocks, all of both sides"
    PARTLY_PAIRED = "common blocks, of which a side has further ones"
    BY_WAY_OF_OTHERS = "units that link both by way of others"
    SEPARATE = "the runs of each side"
    NONE = "one run, so there is no interval"


class Method(NamedTuple):
    """How an interval is made: its `basis`; the number of common `units` that count; the degrees of
    freedom of the spread that is `pooled` over configurations, 0 for the pair's own; whether the
    units are rounds `in_turns`."""

    basis: Basis
    units: int = 0
    pooled: int = 0
    in_turns: bool = False


@dataclass(frozen=True)
class Ratio(Interval):
    """A ratio a / b with its interval and how it was made."""

    method: Method

    @property
    def shown_different(self) -> bool:
        return self.excludes(1)


@dataclass(frozen=True)
class Unequal(Interval):
    """A ratio of seconds with its 95 % interval. It is not a speed-up, so its text always carries
    the mark ≠."""

    def __str__(self) -> str:
        """``≠1.2134 (1.1902–1.2371)``."""
        if self.low is None or self.high is None:
            return f"{MARK}{self.estimate:.4f}"
        return f"{MARK}{self.estimate:.4f} ({self.low:.4f}–{self.high:.4f})"


class RunValue(NamedTuple):
    """A run that is not void.

    - `key`: its configuration; `device`: the spread is pooled over the configurations of one.
    - `log`: log seconds of an epoch, by turns if it trained `in_turns` (`effects.Effect`).
    - `unit`: its round or block; `machine`, and the moment it `started` (seconds).
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


class Spread(NamedTuple):
    """`variance` of log seconds between runs of one configuration, without unit effects, and the
    `degrees_of_freedom` of the estimate."""

    variance: float
    degrees_of_freedom: int


class Estimates:
    """The estimates from `runs`."""

    def __init__(self, runs: Iterable[RunValue]) -> None:
        every: dict[Key, list[RunValue]] = {}
        for run in runs:
            every.setdefault(run.key, []).append(run)
        # A configuration that has only companions is not one of the results.
        self._runs = {
            key: _comparable(own)
            for key, own in every.items()
            if not all(run.is_companion for run in own)
        }
        starts = [(run.machine, run.started) for own in self._runs.values() for run in own]
        self._session = sessions(starts)
        self._counts: dict[str, bool] = {}
        self._fits: dict[Key, _Fit] = {}
        for keys in _linked(self._runs):
            linked = {key: self._runs[key] for key in keys}
            self._counts |= _counting(linked)
            fit = _Fit(linked, self._counts)
            self._fits |= dict.fromkeys(keys, fit)
        self._pools: dict[Hashable, tuple[Spread | None, int]] = {}

    def __contains__(self, key: Key) -> bool:
        return key in self._runs

    def runs(self, key: Key) -> int:
        """The number of runs of a configuration, companions included."""
        return len(self._runs[key])

    def seconds(self, key: Key) -> Interval:
        """The seconds of a configuration, with Student's interval from its own runs."""
        own = self._own(key)
        half = mean_halfwidth(own, CONFIDENCE) if len(own) > 1 else None
        return Interval.around(self._fits[key].logs[key], half).map(math.exp)

    def ratio(self, own: Key, base: Key, comparisons: int = 1) -> Ratio:
        """The speed-up of `own` over `base`: seconds of `base` / seconds of `own`.

        If it is one of several simultaneous `comparisons` with the same configuration, its interval
        holds simultaneously with the others: Dunnett's with a pooled spread (at any number of
        repeats), else Šidák's. If the pair's own spread rejects pooling, it is the wider of
        Dunnett's interval and the pair's own single interval. In simulations with three repeats,
        widening the latter as well showed 77 % instead of 89 % of the differences of 10 % and did
        not reduce the number of wrong headlines.

        It is never narrower than the interval of the single comparison, which the table shows:
        with many repeats, only the simultaneous one pools the spread.
        """
        log = self._fits[base].logs[base] - self._fits[own].logs[own]
        half, method = self._halfwidth(own, base, comparisons)
        if half is not None and comparisons > 1:
            half = max(half, self._halfwidth(own, base, 1)[0] or 0.0)
        interval = Interval.around(log, half).map(math.exp)
        return Ratio(interval.estimate, interval.low, interval.high, method)

    def is_slowed(self, key: Key) -> bool:
        """Whether the machine was slowed down in its rounds, but for fewer than
        `LEAST_UNDISTURBED`."""
        slowed = [run.state == State.SLOWED for run in self._runs[key]]
        return any(slowed) and slowed.count(False) < LEAST_UNDISTURBED

    def spread(self) -> Spread | None:
        """The spread of log seconds between runs of one configuration without the effects of units,
        pooled over all configurations; None without degrees of freedom."""
        squares, freedom = 0.0, 0
        for fit in {id(fit): fit for fit in self._fits.values()}.values():
            if fit.spread is not None:
                squares += fit.spread.variance * fit.spread.degrees_of_freedom
                freedom += fit.spread.degrees_of_freedom
        return Spread(squares / freedom, freedom) if freedom else None

    def _own(self, key: Key) -> list[float]:
        """Log seconds of the runs that are not companions, in units that count if there are any."""
        own = [run for run in self._runs[key] if not run.is_companion]
        counting = [run for run in own if self._counts[run.unit]]
        return [run.log for run in counting or own]

    def _halfwidth(self, own: Key, base: Key, comparisons: int) -> tuple[float | None, Method]:
        """The half-width of the interval of a log ratio, None for single runs, and its method."""
        confidence = sidak_confidence(CONFIDENCE, comparisons)
        pairs = self._pairs(own, base)
        in_turns = bool(pairs) and all(run.in_turns for run, _ in pairs)
        is_complete = len(pairs) == len(self._runs[base]) == len(self._runs[own])
        if len(pairs) >= (2 if is_complete or in_turns else PAIRED_FROM):
            basis = Basis.PAIRED if is_complete else Basis.PARTLY_PAIRED
            method = Method(Basis.IN_TURNS if in_turns else basis, len(pairs), 0, in_turns)
            return self._paired(own, base, pairs, comparisons, method)
        if min(len(self._own(own)), len(self._own(base))) < 2:
            return None, Method(Basis.NONE, len(pairs), in_turns=in_turns)
        fit = self._fits[own]
        if fit is self._fits[base]:
            half = fit.halfwidth(own, base, confidence)
            return half, Method(Basis.NONE if half is None else Basis.BY_WAY_OF_OTHERS)
        half = welch_halfwidth(self._own(own), self._own(base), confidence)
        return half, Method(Basis.SEPARATE)

    def _pairs(self, own: Key, base: Key) -> list[tuple[RunValue, float]]:
        """The runs of `base` in the common units, with log `base` - log `own`. Empty if a side has
        two runs in a unit, which were then not measured at the same time."""
        by_unit = {run.unit: run.log for run in self._runs[own]}
        base_runs = self._runs[base]
        if len(by_unit) < len(self._runs[own]) or len({r.unit for r in base_runs}) < len(base_runs):
            return []
        return [(run, run.log - by_unit[run.unit]) for run in base_runs if run.unit in by_unit]

    def _paired(
        self,
        own: Key,
        base: Key,
        pairs: Sequence[tuple[RunValue, float]],
        comparisons: int,
        method: Method,
    ) -> tuple[float | None, Method]:
        """The half-width from the differences in common units; and its method."""
        counting = [pair for pair in pairs if self._counts[pair[0].unit]] or pairs
        logs = [log for _, log in counting]
        method = method._replace(units=len(logs))
        # The spread of a single round that counts is that of the others.
        of_spread = logs if len(logs) > 1 else [log for _, log in pairs]
        variance, freedom = statistics.variance(of_spread), len(of_spread) - 1
        error = math.sqrt(variance / len(logs))
        confidence = sidak_confidence(CONFIDENCE, comparisons)
        quantile = student_quantile(confidence, freedom)
        pool, repeats = self._pool(own, base)
        if pool is not None and (comparisons > 1 or repeats < POOLED_BELOW or len(logs) == 1):
            quantile = student_quantile(CONFIDENCE, freedom)
            pooled_quantile = dunnett_quantile(CONFIDENCE, comparisons, pool.degrees_of_freedom)
            pooled_error = math.sqrt(2 * pool.variance / len(logs))
            is_wider = quantile * error >= pooled_quantile * pooled_error
            if not (is_wider and is_noisier(variance, freedom, *pool)):
                quantile, error = pooled_quantile, pooled_error
                method = method._replace(pooled=pool.degrees_of_freedom)
        slowness = statistics.fmean(run.slowness for run, _ in counting)
        half = quantile * math.hypot(error, math.sqrt(2) * UNEQUAL * slowness)
        return max(half, self._session_halfwidth(counting, confidence)), method

    def _session_halfwidth(
        self, pairs: Sequence[tuple[RunValue, float]], confidence: float
    ) -> float:
        """The half-width of Student's interval from the means of the sessions, each weighted by its
        number of pairs; 0 if they are too few, or if no session has two pairs."""
        by_session: dict[int, list[float]] = {}
        for run, log in pairs:
            by_session.setdefault(self._session[run.machine, run.started], []).append(log)
        count = len(by_session)
        if not LEAST_SESSIONS <= count < len(pairs):
            return 0.0
        spread = statistics.stdev(statistics.fmean(logs) for logs in by_session.values())
        shares = [len(logs) / len(pairs) for logs in by_session.values()]
        weights = math.sqrt(sum(share**2 for share in shares))
        return student_quantile(confidence, count - 1) * spread * weights

    def _pool(self, own: Key, base: Key) -> tuple[Spread | None, int]:
        """The pooled spread of the device of both configurations (None if it has too few or they
        are on different devices), and the largest number of repeats there that count."""
        device = self._runs[own][0].device
        if device != self._runs[base][0].device:
            return None, 0
        if device not in self._pools:
            counting, others = {}, {}
            for key, runs in self._runs.items():
                if runs[0].device == device:
                    counting[key] = [run for run in runs if self._counts[run.unit]]
                    others[key] = [run for run in runs if not self._counts[run.unit]]
            repeats = max(len(runs) for runs in counting.values())
            self._pools[device] = pooled_spread(counting if repeats > 1 else others), repeats
        return self._pools[device]


class _Fit:
    """The least-squares fit to the runs of configurations that are linked by common units.

    `logs`: key → log seconds, such that the residuals of the runs that are not companions have the
    mean 0; `spread`: of the residuals. `sets`: the number of sets of linked configurations."""

    def __init__(
        self, runs: Mapping[Key, Sequence[RunValue]], counts: Mapping[str, bool], sets: int = 1
    ) -> None:
        every = [run for own in runs.values() for run in own]
        keys = list(runs)
        own = np.repeat(np.arange(len(keys)), [len(each) for each in runs.values()])
        logs = np.array([run.log for run in every])
        weights = np.array([1.0 if counts[run.unit] else NEGLIGIBLE for run in every])
        unit = np.unique([run.unit for run in every], return_inverse=True)[1]
        table = np.zeros((len(keys), unit.max() + 1))
        np.add.at(table, (own, unit), weights)
        repeats, per_unit = table.sum(axis=1), table.sum(axis=0)
        # The normal equations of the units, after elimination of the configurations.
        shares = table / repeats[:, None]
        self._inverse = np.linalg.pinv(np.diag(per_unit) - table.T @ shares, hermitian=True)
        means = np.bincount(own, weights * logs) / repeats
        of_unit = self._inverse @ (np.bincount(unit, weights * logs) - table.T @ means)
        fitted = means - shares @ of_unit
        owned = np.array([0.0 if run.is_companion else 1.0 for run in every]) * weights
        level = float((owned * (logs - fitted[own])).sum() / owned.sum()) if owned.any() else 0.0
        self.logs = dict(zip(keys, (fitted + level).tolist(), strict=True))
        self._rows = dict(zip(keys, zip(shares, repeats, strict=True), strict=True))
        squares = float((weights * (logs - fitted[own] - of_unit[unit]) ** 2).sum())
        counted = {run.unit for run in every if counts[run.unit]}
        free = round(weights.sum()) - len(keys) - len(counted) + sets
        self.spread = Spread(squares / free, free) if free > 0 else None

    def halfwidth(self, a: Key, b: Key, confidence: float) -> float | None:
        """The half-width of the interval of the difference of two log seconds, from the standard
        error of the fit; None without degrees of freedom."""
        if self.spread is None:
            return None
        (shares_a, repeats_a), (shares_b, repeats_b) = self._rows[a], self._rows[b]
        apart = shares_a - shares_b
        scale = 1 / repeats_a + 1 / repeats_b + float(apart @ self._inverse @ apart)
        quantile = student_quantile(confidence, self.spread.degrees_of_freedom)
        return quantile * math.sqrt(self.spread.variance * scale)


def sessions(starts: Iterable[tuple[str, float]]) -> dict[tuple[str, float], int]:
    """Machine and moment at which a run started (seconds) → the number of its session: the runs of
    a machine that started within `SESSION_SECONDS` after the first of them."""
    numbers: dict[tuple[str, float], int] = {}
    count, current = 0, ("", -math.inf)
    for machine, moment in sorted(set(starts)):
        if machine != current[0] or moment - current[1] >= SESSION_SECONDS:
            count += 1
            current = machine, moment
        numbers[machine, moment] = count
    return numbers


def pooled_spread(runs: Mapping[Key, Sequence[RunValue]]) -> Spread | None:
    """The pooled spread of the configurations of a device. None unless at least `POOLED_FROM` of
    them have runs in two or more units, and none has two runs in one unit. A missing run only
    removes that unit from its configuration."""
    repeated = {key: own for key, own in runs.items() if len(own) > 1}
    is_single = all(len({run.unit for run in own}) == len(own) for own in runs.values())
    if not is_single or len(repeated) < POOLED_FROM:
        return None
    counts = {run.unit: True for own in repeated.values() for run in own}
    return _Fit(repeated, counts, len(_linked(repeated))).spread


def _comparable(runs: Sequence[RunValue]) -> list[RunValue]:
    """The runs of a configuration that took turns, if these are two or more: seconds spread by far
    more than ratios in turns, so that a few of them would only add noise."""
    in_turns = [run for run in runs if run.in_turns]
    return in_turns if len(in_turns) > 1 else list(runs)


def _counting(runs: Mapping[Key, Sequence[RunValue]]) -> dict[str, bool]:
    """Whether each unit of linked configurations counts: all in the best states, as far as these
    are needed for `LEAST_ROUNDS` or, without the slowed ones, for one."""
    states = {run.unit: run.state for own in runs.values() for run in own}
    limit = State.SLOWED
    if min(states.values()) < State.SLOWED:
        limit = State.PARTLY_SLOWED
    if list(states.values()).count(State.QUIET) >= LEAST_ROUNDS:
        limit = State.QUIET
    return {unit: state <= limit for unit, state in states.items()}


def _linked(runs: Mapping[Key, Sequence[RunValue]]) -> list[list[Key]]:
    """The sets of configurations that are linked by common units."""
    own = np.repeat(np.arange(len(runs)), [len(each) for each in runs.values()])
    names = [run.unit for each in runs.values() for run in each]
    units = np.unique(names, return_inverse=True)[1] if names else own
    size = len(runs) + int(max(units, default=0)) + 1
    graph = coo_array((np.ones(len(own)), (own, len(runs) + units)), shape=(size, size))
    sets: dict[int, list[Key]] = {}
    for key, label in zip(runs, connected_components(graph, directed=False)[1], strict=False):
        sets.setdefault(label, []).append(key)
    return list(sets.values())
