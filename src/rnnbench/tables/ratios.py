"""The one estimate of the seconds of configurations and of the ratio of any two: page, tables,
MLflow, terminal, stopping rule, plan and comparison use it. No side effects.

The seconds of each configuration come from a least-squares fit to the log seconds of the runs
(`fit`). A ratio is always the quotient of these seconds. Its interval comes from the spreads of
both configurations, in which all of the device share what they know (`fit.pooled_spreads`), and
from the means of the sessions if there are several. Where fewer than three configurations can share
it, it comes from the differences of the pair in their common units (Student's t). Two
configurations that have too few common units but are linked by others get the standard error of the
fit, and two that are not linked Welch's interval. A ratio has one interval, everywhere.

Rounds in which the machine was slowed down do not count where enough others remain; where only
slowed ones are left, the interval is wider by how unequally members are known to be slowed.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from rnnbench.records.interval import Interval
from rnnbench.tables.effects import RunValue
from rnnbench.tables.fit import Fit, RunsByKey, linked, pooled_spreads
from rnnbench.tables.states import State
from rnnbench.tables.stats import Spread, mean_halfwidth, student_quantile, welch_halfwidth

CONFIDENCE = 0.95
MARK = "≠"
PAIRED_FROM = 3  # common blocks if a side has further ones; with two, Student's t is 12.7
SESSION_SECONDS = 1800.0
LEAST_SESSIONS = 3
LEAST_ROUNDS = 3  # quiet ones, for others not to count
LEAST_UNDISTURBED = 2  # rounds, for a result not to be called one of a slowed machine
# Standard deviation of how differently the log seconds of members depend on the slowness. Measured
# on two cores in 70 rounds of four members of 2026-11-24: 0.24 on one core, 0.09 on two.
UNEQUAL = 0.24
Pairs = Sequence[tuple[RunValue, float]]  # a run of the base; log seconds of the base / own


class Basis(Enum):
    """What the interval of a ratio is from."""

    IN_TURNS = "rounds in turns"
    PAIRED = "common blocks, all of both sides"
    PARTLY_PAIRED = "common blocks, of which a side has further ones"
    BY_WAY_OF_OTHERS = "units that link both by way of others"
    SEPARATE = "the runs of each side"
    NONE = "one run, so there is no interval"


class Method(NamedTuple):
    """How an interval is made.

    - `basis`: what it is from.
    - `units`: the number of common units that count.
    - `pooled`: the degrees of freedom that count if the configurations of the device share their
      spread, 0 for the pair's own.
    - `in_turns`: whether the units are rounds in turns.
    """

    basis: Basis
    units: int = 0
    pooled: float = 0
    in_turns: bool = False


@dataclass(frozen=True)
class Ratio(Interval):
    """A ratio a / b with its interval and how it was made."""

    method: Method

    @property
    def shown_different(self) -> bool:
        """Whether the interval excludes 1."""
        return self.excludes(1)


@dataclass(frozen=True)
class Unequal(Interval):
    """A ratio of seconds with its 95 % interval. It is not a speed-up, so its text always carries
    the mark ≠."""

    def __str__(self) -> str:
        """``≠1.2134 (1.1902–1.2371)``."""
        text = f"{MARK}{self.estimate:.4f}"
        if self.low is None or self.high is None:
            return text
        return f"{text} ({self.low:.4f}–{self.high:.4f})"


class Estimates:
    """The estimates from `runs`.

    - `_runs`: the runs of each configuration that are compared.
    - `_session`: machine and start of a run → the number of its session.
    - `_counts`: whether each unit counts.
    - `_fits`: the fit of each configuration; linked ones share a fit. `_different_fits`: each fit
      once.
    - `_pools`: the spreads of the configurations of each device, as far as they were asked for.
    """

    def __init__(self, runs: Iterable[RunValue]) -> None:
        by_key = defaultdict(list)
        for run in runs:
            by_key[run.key].append(run)

        self._runs = {}
        starts = []
        for key, own in by_key.items():
            # A configuration that has only companions is not one of the results.
            if all(run.is_companion for run in own):
                continue
            # Seconds spread by far more than ratios in turns: a few would only add noise.
            in_turns = [run for run in own if run.in_turns]
            if len(in_turns) > 1:
                own = in_turns
            self._runs[key] = own
            starts += [(run.machine, run.started) for run in own]
        self._session = sessions(starts)

        self._counts: dict[str, bool] = {}
        self._fits: dict[Hashable, Fit] = {}
        self._different_fits = []
        for keys in linked(self._runs):
            linked_runs = {key: self._runs[key] for key in keys}
            self._counts |= _counting(linked_runs)
            fit = Fit(linked_runs, self._counts)
            self._fits |= dict.fromkeys(keys, fit)
            self._different_fits.append(fit)
        self._pools: dict[Hashable, dict[Hashable, Spread]] = {}

    def __contains__(self, key: Hashable) -> bool:
        return key in self._runs

    def runs(self, key: Hashable) -> int:
        """The number of runs of a configuration, companions included."""
        return len(self._runs[key])

    def seconds(self, key: Hashable) -> Interval:
        """The seconds of a configuration, with Student's interval from its own runs.

        They are from the fit, so their quotients are the ratios. A single run has no interval.
        """
        own = self._own(key)
        half = None
        if len(own) > 1:
            half = mean_halfwidth(own, CONFIDENCE)
        return Interval.around(self._fits[key].logs[key], half).map(math.exp)

    def ratio(self, own: Hashable, base: Hashable) -> Ratio:
        """The speed-up of `own` over `base`: seconds of `base` / seconds of `own`.

        `own`, `base`: configurations.
        """
        own_log = self._fits[own].logs[own]
        base_log = self._fits[base].logs[base]
        half, method = self._halfwidth(own, base)
        interval = Interval.around(base_log - own_log, half).map(math.exp)
        return Ratio(
            interval.estimate,
            interval.low,
            interval.high,
            method,
        )

    def is_slowed(self, key: Hashable) -> bool:
        """Whether the machine was slowed down in its rounds, but for fewer than
        `LEAST_UNDISTURBED`."""
        runs = self._runs[key]
        undisturbed = [run for run in runs if run.state != State.SLOWED]
        return len(undisturbed) < min(LEAST_UNDISTURBED, len(runs))

    def spread(self) -> Spread | None:
        """The spread of log seconds between runs of one configuration without the effects of units,
        pooled over all configurations.

        Returns None without degrees of freedom.
        """
        squares = 0.0
        freedom = 0.0
        for fit in self._different_fits:
            if fit.spread is not None:
                squares += fit.spread.variance * fit.spread.degrees_of_freedom
                freedom += fit.spread.degrees_of_freedom
        if freedom == 0:
            return None
        return Spread(squares / freedom, freedom)

    def _own(self, key: Hashable) -> list[float]:
        """Log seconds of the runs that are not companions, in units that count if there are any."""
        own = [run for run in self._runs[key] if not run.is_companion]
        counting = [run.log for run in own if self._counts[run.unit]]
        return counting or [run.log for run in own]

    def _halfwidth(self, own: Hashable, base: Hashable) -> tuple[float | None, Method]:
        """The half-width of the interval of a log ratio, None for single runs, and its method.

        The first of these that the runs allow: differences in common units, the standard error of
        the fit, Welch's interval.

        `own`, `base`: the configurations.
        """
        pairs = self._pairs(own, base)
        in_turns = bool(pairs) and all(run.in_turns for run, _ in pairs)
        basis = Basis.PAIRED
        least = 2
        if in_turns:
            basis = Basis.IN_TURNS
        elif len(pairs) < max(len(self._runs[own]), len(self._runs[base])):
            basis = Basis.PARTLY_PAIRED
            least = PAIRED_FROM
        if len(pairs) >= least:
            return self._paired(
                own,
                base,
                pairs,
                basis,
            )

        own_logs = self._own(own)
        base_logs = self._own(base)
        if len(own_logs) < 2 or len(base_logs) < 2:
            return None, Method(Basis.NONE, len(pairs), in_turns=in_turns)
        fit = self._fits[own]
        if fit is not self._fits[base]:
            half = welch_halfwidth(own_logs, base_logs, CONFIDENCE)
            return half, Method(Basis.SEPARATE)
        by_fit = fit.halfwidth(own, base, CONFIDENCE)
        if by_fit is None:
            return None, Method(Basis.NONE)
        return by_fit, Method(Basis.BY_WAY_OF_OTHERS)

    def _pairs(self, own: Hashable, base: Hashable) -> Pairs:
        """The runs of `base` in the common units, with log `base` - log `own`.

        There are none if a side has two runs in a unit, which were then not measured at the same
        time.
        """
        for runs in (self._runs[own], self._runs[base]):
            if len({run.unit for run in runs}) < len(runs):
                return []
        logs = {run.unit: run.log for run in self._runs[own]}
        pairs = []
        for run in self._runs[base]:
            if run.unit in logs:
                pairs.append((run, run.log - logs[run.unit]))
        return pairs

    def _paired(
        self,
        own: Hashable,
        base: Hashable,
        pairs: Pairs,
        basis: Basis,
    ) -> tuple[float | None, Method]:
        """The half-width from the differences in common units, and its method.

        - `own`, `base`: the configurations.
        - `pairs`: see `_pairs`; two or more.
        - `basis`: what the method is to state.
        """
        counting = [pair for pair in pairs if self._counts[pair[0].unit]]
        counting = counting or list(pairs)
        logs = [log for _, log in counting]
        spreads = self._spreads(own, base)
        pooled = 0.0
        if spreads:
            variance = spreads[own].variance + spreads[base].variance
            freedom = min(spreads[own].degrees_of_freedom, spreads[base].degrees_of_freedom)
            pooled = freedom
        else:
            of_spread = logs
            if len(logs) == 1:
                # The spread of a single round that counts is that of the others.
                of_spread = [log for _, log in pairs]
            variance = statistics.variance(of_spread)
            freedom = len(of_spread) - 1
        error = math.sqrt(variance / len(logs))
        quantile = student_quantile(CONFIDENCE, freedom)

        slowness = statistics.fmean(run.slowness for run, _ in counting)
        error_by_slowness = math.sqrt(2) * UNEQUAL * slowness
        half = quantile * math.hypot(error, error_by_slowness)
        by_sessions = self._session_halfwidth(counting)
        method = Method(
            basis,
            len(logs),
            pooled,
            basis is Basis.IN_TURNS,
        )
        return max(half, by_sessions), method

    def _session_halfwidth(self, pairs: Pairs) -> float:
        """The half-width of Student's interval from the means of the sessions, each weighted by its
        number of pairs.

        `pairs`: see `_pairs`; those that count.

        Returns 0 if the sessions are too few, or if no session has two pairs.
        """
        by_session = defaultdict(list)
        for run, log in pairs:
            session = self._session[run.machine, run.started]
            by_session[session].append(log)
        count = len(by_session)
        if not LEAST_SESSIONS <= count < len(pairs):
            return 0.0
        means = []
        squared_shares = []
        for logs in by_session.values():
            means.append(statistics.fmean(logs))
            share = len(logs) / len(pairs)
            squared_shares.append(share**2)
        quantile = student_quantile(CONFIDENCE, count - 1)
        return quantile * statistics.stdev(means) * math.sqrt(sum(squared_shares))

    def _spreads(self, own: Hashable, base: Hashable) -> dict[Hashable, Spread]:
        """The spread of each configuration of the device of both.

        Empty if too few configurations are on the device, or if the two are on different devices.
        """
        device = self._runs[own][0].device
        if device != self._runs[base][0].device:
            return {}
        if device not in self._pools:
            counting: dict[Hashable, list[RunValue]] = {}
            others: dict[Hashable, list[RunValue]] = {}
            for key, runs in self._runs.items():
                if runs[0].device == device:
                    counting[key] = []
                    others[key] = []
                    for run in runs:
                        runs_of_kind = counting if self._counts[run.unit] else others
                        runs_of_kind[key].append(run)
            repeats = max(len(runs) for runs in counting.values())
            self._pools[device] = pooled_spreads(counting if repeats > 1 else others)
        return self._pools[device]


def _counting(runs: RunsByKey) -> dict[str, bool]:
    """Whether each unit of linked configurations counts.

    Quiet units count. Unless there are `LEAST_ROUNDS` of them, partly slowed units count as well.
    Slowed units count only if there are no others.

    `runs`: those of each configuration.
    """
    states = {}
    for own in runs.values():
        for run in own:
            states[run.unit] = run.state
    found = list(states.values())
    limit = State.SLOWED
    if min(found) < State.SLOWED:
        limit = State.PARTLY_SLOWED
    if found.count(State.QUIET) >= LEAST_ROUNDS:
        limit = State.QUIET
    return {unit: state <= limit for unit, state in states.items()}


def sessions(starts: Iterable[tuple[str, float]]) -> dict[tuple[str, float], int]:
    """Machine and moment of a start → the number of its session.

    A session consists of the runs of a machine that started within `SESSION_SECONDS` after the
    first of them.

    - `starts`: the machine of each run, and the moment at which it started (seconds).
    """
    numbers = {}
    count = 0
    current_machine = ""
    beginning = -math.inf
    for machine, moment in sorted(set(starts)):
        if machine != current_machine or moment - beginning >= SESSION_SECONDS:
            count += 1
            current_machine = machine
            beginning = moment
        numbers[machine, moment] = count
    return numbers
