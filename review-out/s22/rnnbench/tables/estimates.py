"""The measurements that tables are made of, the reference of each configuration, and one estimate
for all tables of its seconds and of the ratio of any two.

The log seconds of a run are modelled as

    log seconds  =  configuration + unit + noise,

where a unit is a round in turns, or a block of runs that were measured on their own. Least squares
(Fisher, *Statistical Methods for Research Workers*, 1925, two-way analysis) gives the seconds of
each configuration. A ratio is always the quotient of these seconds. Its interval comes from the
differences of the pair in their common units (Student's t), below five repeats possibly with the
pooled spread (`pooled_spread`), and from the means of the sessions if there are several. Two
configurations that have too few common units but are linked by others get the standard error of the
fit, and two that are not linked Welch's interval. See ``docs/measurement.md``, "Repeats and
intervals".
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from rnnbench.axes import KEY
from rnnbench.records import timestamps
from rnnbench.records.overrides import Overrides, option_of
from rnnbench.sources.prices import PriceList
from rnnbench.tables.certificates import Certificates
from rnnbench.tables.frame import Groups, Rows, implementation_of, run_values, split
from rnnbench.tables.stats import (
    ONE_RUN,
    POOLED_BELOW,
    Interval,
    Ratio,
    Spread,
    mean_halfwidth,
    pooled_halfwidth,
    sidak_confidence,
    student_quantile,
    welch_halfwidth,
)
from rnnworker.options import OF_THE_FUNCTION, PREFIX, named

CONFIDENCE = 0.95
IN_TURNS = "in turns"
PAIRED_FROM = 3  # common blocks if a side has further ones; with two, Student's t is 12.7
SESSION_SECONDS = 1800.0
LEAST_SESSIONS = 3
LEAST_UNDISTURBED = 2
DEVICE = ["model", "device", "machine"]
RUN_COLUMNS = [
    "log", "unit", "companion", "in_turns", "session", "slowed", "widening", "slow_effect",
    "slow_cycles", "cycles",
]  # fmt: skip
LEAST_SLOW_CYCLES = 20
LEAST_CHANGE = 0.03  # of a ratio, to be worth a clause
NAMING = ["variant", "rnn", "options", "alias", "implementation"]
Key = tuple[Any, ...]


@dataclass(frozen=True)
class Measurements:
    """What tables are made of.

    - `frame`: the tidy frame of the records.
    - `reference`: axis or ``rnn.options.NAME`` → choice or value, which configurations are compared
      with (`references`).
    - `certificates`: what judges whether two configurations compute the same function.
    - `prices`: the price list (None: no cost in USD).
    - `peaks`: device → precision → the TFLOP/s that its datasheet states.
    """

    frame: pd.DataFrame
    reference: Mapping[str, str] = field(default_factory=dict)
    certificates: Certificates = field(default_factory=Certificates)
    prices: PriceList | None = None
    peaks: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @cached_property
    def values(self) -> pd.DataFrame:
        """The `run_values` with companions."""
        return run_values(self.frame, companions=True)

    @cached_property
    def runs(self) -> pd.DataFrame:
        """The `values` without companions."""
        return self.values[~self.values["companion"]].reset_index(drop=True)

    @cached_property
    def groups(self) -> Groups:
        """Each configuration (values of `KEY`) → its `runs`."""
        return split(self.runs, KEY)

    @cached_property
    def estimates(self) -> Estimates:
        return Estimates(self.values)

    @cached_property
    def against(self) -> dict[Key, Key]:
        """Each configuration → its reference, including those whose runs are void: a void reference
        is not replaced by another configuration."""
        return references(keys_of(self.frame), self.reference)

    @cached_property
    def judge(self) -> Callable[[Key, Key], tuple[str, str]]:
        """Whether two configurations compute the same function, and why (`Certificates.judge`)."""
        return cache(lambda own, base: self.certificates.judge(_named(own), _named(base)))

    @cached_property
    def why_not_learning(self) -> Callable[[Key], str | None]:
        """Why a configuration applies wrong gradients, or None."""
        return cache(lambda key: self.certificates.why_not_learning(_named(key)))


def _named(key: Key) -> dict[str, Any]:
    return dict(zip(KEY, key, strict=True))


class Estimates:
    """The estimates from a table of `run_values` with companions. Keys are tuples of the values of
    `axes`, the columns that identify a configuration."""

    def __init__(self, values: pd.DataFrame, axes: Sequence[str] = tuple(KEY)):
        table = values.assign(
            log=np.log(values["seconds"].to_numpy(dtype=float)),
            unit=pd.factorize(values["pairing"])[0],
            in_turns=values["effect"].notna().to_numpy(),
            session=sessions(values),
        )
        # Seconds spread by far more than ratios in turns: a few of them would only add noise.
        in_turns = table.groupby(list(axes), sort=False, dropna=False)["in_turns"].transform("sum")
        self._runs = split(table[table["in_turns"] | (in_turns < 2)], axes, RUN_COLUMNS)
        place = [list(axes).index(name) for name in DEVICE]
        self._device_of = {key: tuple(key[index] for index in place) for key in self._runs}
        self._fits: dict[Key, _Fit] = {}
        for keys in _linked(self._runs):
            fit = _Fit({key: self._runs[key] for key in keys})
            self._fits |= dict.fromkeys(keys, fit)
        self._spreads: dict[Key, tuple[Spread | None, int]] = {}

    def __contains__(self, key: Key) -> bool:
        return key in self._runs

    def seconds(self, key: Key) -> Interval:
        """The seconds of a configuration, with Student's interval from its own runs."""
        own = _own(self._runs[key])
        log = self._fits[key].logs[key]
        half = mean_halfwidth(own, CONFIDENCE) if len(own) > 1 else None
        return Interval.around(log, half).map(math.exp)

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

    def _halfwidth(self, own: Key, base: Key, comparisons: int) -> tuple[float | None, str]:
        """The half-width of the interval of a log ratio, None for single runs, and its method."""
        a, b = self._runs[base], self._runs[own]
        pairs, session, in_turns = _differences(a, b)
        is_complete = len(pairs) == len(a["log"]) == len(b["log"])
        confidence = sidak_confidence(CONFIDENCE, comparisons)
        if len(pairs) >= (2 if is_complete or in_turns else PAIRED_FROM):
            half = mean_halfwidth(pairs, confidence)
            method = "paired" if is_complete else f"paired on {len(pairs)} common blocks"
            if in_turns:
                method = f"{IN_TURNS}, {len(pairs)} rounds"
            spread = self._spread(own, base, any_repeats=comparisons > 1)
            if spread is not None:
                half = mean_halfwidth(pairs, CONFIDENCE)
                wider = pooled_halfwidth(pairs, half, spread, CONFIDENCE, comparisons)
                if wider is not None:
                    half, pooled = wider
                    method = f"{method}; {pooled}" if in_turns else pooled
            half *= max(float(rows["widening"].max()) for rows in (a, b)) if in_turns else 1.0
            half = max(half, _session_halfwidth(pairs, session, confidence))
        elif min(len(_own(a)), len(_own(b))) < 2:
            half, method = None, f"{IN_TURNS}, {ONE_RUN}" if in_turns else ONE_RUN
        elif self._fits[own] is self._fits[base]:
            half = self._fits[own].halfwidth(own, base, confidence)
            method = ONE_RUN if half is None else "by way of others"
        else:
            half, method = welch_halfwidth(_own(a), _own(b), confidence), "welch"
        return half, method

    def is_slowed(self, key: Key) -> bool:
        """Whether the machine was slowed down in its rounds, but for fewer than
        `LEAST_UNDISTURBED`."""
        slowed = self._runs[key]["slowed"]
        return bool(slowed.any()) and int((~slowed).sum()) < LEAST_UNDISTURBED

    def when_slowed(self, own: Key, base: Key) -> tuple[float, float] | None:
        """The speed-up of `own` over `base` while the machine was slowed, from the common rounds in
        turns, and the share of their cycles in which it was; None if these are too few, or if the
        ratio hardly differs from that of the undisturbed machine."""
        a, b = self._runs[base], self._runs[own]
        effect_of = dict(zip(b["unit"].tolist(), b["slow_effect"].tolist(), strict=True))
        columns = (a[name].tolist() for name in ("unit", "slow_effect", "slow_cycles", "cycles"))
        common = [row for row in zip(*columns, strict=True) if row[0] in effect_of]
        slow = [(effect - effect_of[unit], count) for unit, effect, count, _ in common]
        slow = [(log, count) for log, count in slow if not math.isnan(log)]
        total = sum(count for _, count in slow)
        if total < LEAST_SLOW_CYCLES:
            return None
        log = sum(log * count for log, count in slow) / total
        if abs(log - math.log(self.ratio(own, base).estimate)) < LEAST_CHANGE:
            return None
        return math.exp(log), float(total / sum(cycles for *_, cycles in common))

    def _spread(self, own: Key, base: Key, any_repeats: bool) -> Spread | None:
        """The pooled spread of the device of both configurations; None if they are on different
        devices, or if there are so many repeats that it is not needed."""
        device = self._device_of[own]
        if device != self._device_of[base]:
            return None
        if device not in self._spreads:
            runs = {key: self._runs[key] for key, its in self._device_of.items() if its == device}
            self._spreads[device] = pooled_spread(runs)
        spread, repeats = self._spreads[device]
        return spread if any_repeats or repeats < POOLED_BELOW else None


class _Fit:
    """The least-squares fit to the runs of configurations that are linked by common units.

    `logs`: key → log seconds, such that the residuals of the runs that are not companions have the
    mean 0; `spread`: of the residuals. `sets`: the number of sets of linked configurations."""

    def __init__(self, runs: Mapping[Key, Rows], sets: int = 1):
        keys = list(runs)
        own = np.repeat(np.arange(len(keys)), [len(rows["log"]) for rows in runs.values()])
        logs, units, companion = (
            np.concatenate([rows[name] for rows in runs.values()])
            for name in ("log", "unit", "companion")
        )
        unit = np.unique(units, return_inverse=True)[1]
        counts = np.zeros((len(keys), unit.max() + 1))
        np.add.at(counts, (own, unit), 1)
        repeats, per_unit = counts.sum(axis=1), counts.sum(axis=0)
        # The normal equations of the units, after elimination of the configurations.
        shares = counts / repeats[:, None]
        self._inverse = np.linalg.pinv(np.diag(per_unit) - counts.T @ shares, hermitian=True)
        means = np.bincount(own, logs) / repeats
        of_unit = self._inverse @ (np.bincount(unit, logs) - counts.T @ means)
        fitted = means - shares @ of_unit
        level = float((logs - fitted[own])[~companion].mean()) if (~companion).any() else 0.0
        self.logs = dict(zip(keys, (fitted + level).tolist(), strict=True))
        self._rows = dict(zip(keys, zip(shares, repeats, strict=True), strict=True))
        squares = float(((logs - fitted[own] - of_unit[unit]) ** 2).sum())
        free = len(logs) - len(keys) - len(per_unit) + sets
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


def sessions(values: pd.DataFrame) -> list[int]:
    """The number of the session of each run: the runs of a machine that started within
    `SESSION_SECONDS` after the first of them."""
    started = pd.to_datetime(values["started"], format=timestamps.FORMAT)
    moments = (started - pd.Timestamp(0)).dt.total_seconds().tolist()
    machines = values["machine"].tolist()
    numbers, count = [0] * len(moments), 0
    current: dict[str, tuple[int, float]] = {}  # machine → session, and when it began
    for place in sorted(range(len(moments)), key=moments.__getitem__):
        machine, moment = machines[place], moments[place]
        if machine not in current or moment - current[machine][1] >= SESSION_SECONDS:
            count += 1
            current[machine] = (count, moment)
        numbers[place] = current[machine][0]
    return numbers


def pooled_spread(runs: Mapping[Key, Rows]) -> tuple[Spread | None, int]:
    """The pooled spread of the configurations of a device, and the largest number of their repeats.
    None unless at least three configurations have runs in two or more units, and none has two runs
    in one unit. A missing run only removes that unit from its configuration."""
    repeated = {key: rows for key, rows in runs.items() if len(rows["log"]) > 1}
    is_single = all(len(set(rows["unit"].tolist())) == len(rows["unit"]) for rows in runs.values())
    spread = None
    if is_single and len(repeated) >= 3:
        spread = _Fit(repeated, len(_linked(repeated))).spread
    return spread, max(len(rows["log"]) for rows in runs.values())


def _linked(runs: Mapping[Key, Rows]) -> list[list[Key]]:
    """The sets of configurations that are linked by common units."""
    own = np.repeat(np.arange(len(runs)), [len(rows["unit"]) for rows in runs.values()])
    units = np.concatenate([rows["unit"] for rows in runs.values()]) if runs else own
    size = len(runs) + max(units, default=0) + 1
    graph = coo_array((np.ones(len(own)), (own, len(runs) + units)), shape=(size, size))
    sets: dict[int, list[Key]] = {}
    for key, label in zip(runs, connected_components(graph, directed=False)[1], strict=False):
        sets.setdefault(label, []).append(key)
    return list(sets.values())


def _own(runs: Rows) -> list[float]:
    """Log seconds of the runs that are not companions."""
    return [float(log) for log in runs["log"][~runs["companion"]]]


def _differences(a: Rows, b: Rows) -> tuple[list[float], list[int], bool]:
    """log a - log b for each common unit, its session, and whether the units are rounds. Empty if a
    side has two runs in a unit, which were then not measured at the same time."""
    by_unit = dict(zip(b["unit"].tolist(), b["log"].tolist(), strict=True))
    if len(by_unit) < len(b["unit"]) or len(set(a["unit"].tolist())) < len(a["unit"]):
        return [], [], False
    columns = (a[name].tolist() for name in ("unit", "log", "session", "in_turns"))
    common = [row for row in zip(*columns, strict=True) if row[0] in by_unit]
    pairs = [log - by_unit[unit] for unit, log, _, _ in common]
    return pairs, [row[2] for row in common], bool(common) and all(row[3] for row in common)


def _session_halfwidth(pairs: Sequence[float], session: Sequence[int], confidence: float) -> float:
    """The half-width of Student's interval from the means of the sessions, each weighted by its
    number of pairs; 0 if they are too few, or if no session has two pairs."""
    by_session: dict[int, list[float]] = {}
    for pair, number in zip(pairs, session, strict=True):
        by_session.setdefault(number, []).append(pair)
    count = len(by_session)
    if not LEAST_SESSIONS <= count < len(pairs):
        return 0.0
    spread = statistics.stdev(map(statistics.fmean, by_session.values()))
    weights = math.sqrt(sum((len(own) / len(pairs)) ** 2 for own in by_session.values()))
    return student_quantile(confidence, count - 1) * spread * weights


def key_of(row: Mapping[Any, Any]) -> Key:
    """The key (values of `KEY`) of a configuration, given a row of any table that has them."""
    return tuple(row[name] for name in KEY)


def keys_of(frame: pd.DataFrame) -> list[Key]:
    """The distinct keys in a frame with the columns `KEY`, in its order."""
    return list(frame[KEY].drop_duplicates().itertuples(index=False, name=None))


def references(keys: Iterable[Key], reference: Mapping[str, str]) -> dict[Key, Key]:
    """The key of each configuration → the key of its reference, which may be missing in `keys`.

    The reference has the choices that `reference` (axis → choice) names, no alias unless
    `reference` names one, and otherwise the choices of the configuration; both compute the same
    function. Options belong to the implementation, so they may differ if `reference` names the
    implementation: the reference is the implementation without options, else the one with the same
    options, else the only one that exists. If `reference` names options (``rnn.options.NAME`` →
    value), the reference is the implementation with these and the configuration's other options,
    else the one with only these.
    """
    configurations = {key: dict(zip(KEY, key, strict=True)) for key in keys}
    required = Overrides.of({key: reference[key] for key in reference if key.startswith(PREFIX)})
    axes = {axis: choice for axis, choice in reference.items() if axis in KEY}
    available: dict[Key, list[Overrides]] = {}
    for configuration in configurations.values():
        without = key_of({**configuration, "options": None})
        available.setdefault(without, []).append(configuration["options"])
    result = {}
    for key, configuration in configurations.items():
        base = {**configuration, "alias": "", **axes}
        candidates = available.get(key_of({**base, "options": None}), [])
        own: Overrides = configuration["options"]
        if required:
            with_others = Overrides.of({**dict(own.items), **dict(required.items)})
            base["options"] = with_others if with_others in candidates else required
        elif "rnn" in reference:
            contained = [each for each in candidates if configuration["variant"].contains(each)]
            only = candidates if own not in candidates and len(candidates) == 1 else [own]
            base["options"] = (contained or only)[0]
        result[key] = key_of(base)
    return result


def with_named_options(table: pd.DataFrame, reference: Mapping[str, str]) -> pd.DataFrame:
    """`table` (with the columns of a configuration) after moving the function options that
    `reference` names from `variant` to `implementation`, so that configurations that differ only in
    them belong to one group and have the same reference. An option with the reference's own value
    is not part of the name: ``keras``, ``keras activation=relu``."""
    if not _function_options(reference) or table.empty:
        return table
    move = cache(lambda *row: move_named_options(dict(zip(NAMING, row, strict=True)), reference))
    rows = [move(*row) for row in table[NAMING].itertuples(index=False, name=None)]
    moved = {name: [row[name] for row in rows] for name in ("variant", "implementation")}
    return table.assign(**moved)


def move_named_options(row: Mapping[Any, Any], reference: Mapping[str, str]) -> dict[str, Any]:
    """A row after moving the function options that `reference` names (see `with_named_options`)."""
    names = _function_options(reference)
    options: Overrides = row["options"]
    own = options.those(lambda key: option_of(key) in names)
    if not own:
        return dict(row)
    shown = options.those(
        lambda key: (
            own.get(key) not in (None, reference.get(key)) or option_of(key) not in OF_THE_FUNCTION
        )
    )
    return {
        **row,
        "variant": row["variant"].those(lambda key: own.get(key) is None),
        "implementation": implementation_of(row["rnn"], row["alias"], shown),
    }


def _function_options(reference: Mapping[str, str]) -> set[str]:
    return {name for name in named(reference) if name in OF_THE_FUNCTION}
