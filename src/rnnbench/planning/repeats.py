"""Decides whether the next repeat of an experiment's round is needed, from its finished runs.

The stopping rule depends on the width of an interval, never on whether the interval excludes 1:
measuring until a difference shows always finds one in the end. The interval is that of the page
(`tables.ratios`), of every ratio that the answer may name: to the reference, and to the fastest.
The rule would stop early if a few runs happen to agree, and their interval is then too narrow; so
an interval that does not pool its spread over configurations counts from `LEAST_ALONE` runs on
(``tests/planning/test_repeats.py`` has a simulation).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rnnbench.grid.point import configuration_of
from rnnbench.planning.finished import FinishedRun
from rnnbench.records.interval import Interval
from rnnbench.records.plan_file import Repeats
from rnnbench.records.record import Run
from rnnbench.records.rounds import NotNeeded
from rnnbench.tables.effects import key_of
from rnnbench.tables.ratios import Estimates, Ratio

LEAST_ALONE = 5  # runs


@dataclass(frozen=True)
class Known:
    """What is known of a configuration.

    - `interval`: of its ratio to the reference or to the fastest, whichever is known less well, or
      of its seconds if it has no ratio.
    - `runs`: the number of runs that it comes from.
    - `is_pooled`: whether the spread is that of all configurations.
    """

    interval: Interval
    runs: int
    is_pooled: bool

    @property
    def halfwidth(self) -> float | None:
        """The upper half of the interval relative to the estimate, None if there is none."""
        if self.interval.high is None:
            return None
        return self.interval.high / self.interval.estimate - 1


def why_not_needed(
    planned: Sequence[Run],
    runs: Sequence[FinishedRun],
    rule: Repeats,
    reference: str | None = None,
) -> dict[str, NotNeeded]:
    """Run → why it need not be measured; empty if the round is needed.

    Runs are compared within a round, so either all of its runs are needed or none.

    - `planned`: the runs of the round.
    - `runs`: the finished runs of the experiment.
    - `rule`: the experiment's stopping rule.
    - `reference`: name of a run. If runs are measured in turns, their ratios to it decide.
    """
    repeat = planned[0].repeat
    if repeat < rule.least:
        return {}
    spent = sum(run.wall_seconds or 0.0 for run in runs)
    if rule.budget_s is not None and spent >= rule.budget_s:
        over = NotNeeded(spent=spent, budget=rule.budget_s)
        return {run.name: over for run in planned}
    if rule.until is None:
        return {}

    known = known_of(planned, runs, reference)
    reasons: dict[str, NotNeeded] = {}
    for run in planned:
        if run.configuration not in known:
            continue
        reason = stop_reason(rule, known[run.configuration])
        if reason is None:
            return {}
        reasons[run.name] = reason
    if not reasons:
        return {}

    # The reference has no ratio; the least known of the others is why it is not needed.
    widest = max(reasons.values(), key=lambda reason: reason.halfwidth or 0.0)
    return {run.name: reasons.get(run.name, widest) for run in planned}


def stop_reason(rule: Repeats, known: Known | None) -> NotNeeded | None:
    """Why no further repeat of a configuration is needed, or None if one is.

    `known`: what is known of the configuration; None for nothing.
    """
    if known is None or known.halfwidth is None or rule.until is None:
        return None
    if known.halfwidth > rule.until:
        return None
    if known.runs < LEAST_ALONE and not known.is_pooled:
        return None
    return NotNeeded(
        halfwidth=known.halfwidth,
        runs=known.runs,
        until=rule.until,
    )


def known_of(
    planned: Sequence[Run],
    runs: Sequence[FinishedRun],
    reference: str | None,
) -> dict[str, Known | None]:
    """Configuration of each planned run → what the finished runs say about it, None for nothing.

    This is its ratio, or its seconds if no run has a ratio in turns. The reference itself has no
    ratio, and the fastest none to itself.

    - `planned`: the runs of a round.
    - `runs`: the finished runs.
    - `reference`: name of the run that the ratios refer to; None for the first planned one.
    """
    base = reference or planned[0].name
    ratios = ratios_of(planned, runs, base)
    known: dict[str, Known | None] = {}
    if ratios:
        fastest = max(ratios, key=lambda configuration: ratios[configuration].estimate)
        leads = {}
        if ratios[fastest].estimate > 1:
            leads = ratios_of(planned, runs, fastest)
        for run in planned:
            own = []
            for found in (ratios, leads):
                ratio = found.get(run.configuration)
                if ratio is not None:
                    own.append(Known(ratio, ratio.method.units, ratio.method.pooled > 0))
            if own:
                known[run.configuration] = max(own, key=lambda each: each.halfwidth or math.inf)
            elif run.name != base:
                known[run.configuration] = None
        return known

    estimates, machine = _estimates(runs)
    for run in planned:
        key = key_of(machine, run.configuration)
        known[run.configuration] = None
        if key in estimates:
            seconds = estimates.seconds(key)
            known[run.configuration] = Known(seconds, estimates.runs(key), is_pooled=False)
    return known


def ratios_of(
    planned: Sequence[Run],
    runs: Sequence[FinishedRun],
    reference: str,
) -> dict[str, Ratio]:
    """Configuration of each planned run → its speed-up over the reference, if they took turns.

    - `planned`: the runs of a round.
    - `runs`: the finished runs.
    - `reference`: the name of a run or configuration.
    """
    estimates, machine = _estimates(runs)
    base = key_of(machine, configuration_of(reference))
    ratios = {}
    for run in planned:
        own = key_of(machine, run.configuration)
        if own == base or own not in estimates or base not in estimates:
            continue
        ratio = estimates.ratio(own, base)
        if ratio.method.in_turns:
            ratios[run.configuration] = ratio
    return ratios


def rounds_measured(planned: Sequence[Run], runs: Sequence[FinishedRun]) -> int:
    """The number of rounds in turns in which configurations of the `planned` runs were measured."""
    configurations = {run.configuration for run in planned}
    units = set()
    for run in runs:
        is_of_one = configuration_of(run.name) in configurations
        if run.value is not None and run.value.in_turns and is_of_one:
            units.add(run.value.unit)
    return len(units)


def _estimates(runs: Sequence[FinishedRun]) -> tuple[Estimates, str]:
    """The estimates from finished runs, and the machine of the latest."""
    values = [run.value for run in runs if run.value is not None]
    machine = ""
    if values:
        machine = max(values, key=lambda value: value.started).machine
    return Estimates(values), machine
