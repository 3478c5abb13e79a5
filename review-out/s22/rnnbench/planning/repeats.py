"""Decides whether the next repeat of an experiment's round is needed, from its finished runs.

The stopping rule depends on the width of an interval, never on whether the interval excludes 1:
measuring until a difference shows always finds one in the end. The width alone is not safe either:
the rule stops early if the runs happen to agree, and then the interval is too narrow. In a
simulation (``tests/planning/test_repeats.py``; spreads of 1 to 3 %, 3 to 10 repeats), the
intervals of a rule that uses each configuration's own spread cover 91 % instead of 95 %. It uses
the pooled spread of the device if it is larger (94 to 95 %), and measures the only configuration of
a device at least five times (93 to 95 %).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from rnnbench.errors import RecordError
from rnnbench.grid.experiment import Repeats
from rnnbench.grid.point import configuration_of
from rnnbench.records.plan_file import read_heads
from rnnbench.records.pointer import BUDGET, Pointer
from rnnbench.records.record import Record, Run
from rnnbench.records.store import Place
from rnnbench.tables.stats import student_quantile

MIN_RUNS_WITHOUT_OTHERS = 5


@dataclass(frozen=True)
class FinishedRun:
    """A finished run. `wall_seconds`: its share of the wall time; `value`: see
    `tables.effects.relative_values`; `company`: the configurations that took turns with it,
    including its own, if the value is relative to theirs; `widening`: the factor by which the
    interval of such values is wider (`tables.effects.Effect`); `round`: its round."""

    name: str
    wall_seconds: float | None
    value: float | None
    company: tuple[str, ...] = ()
    widening: float = 1.0
    device: str | None = None
    round: str | None = None


def finished(own: Iterable[Record], everything: Sequence[Record]) -> list[FinishedRun]:
    """The runs of the records `own`. `everything`: all records of their rounds, `own` included."""
    # Imports NumPy, which the process that measures should not hold in memory.
    from rnnbench.tables.effects import Effect, effects_of, relative_values

    effects = effects_of(everything)
    values = relative_values(everything, effects)
    runs = []
    for record in own:
        effect = effects.get(record.key, Effect())
        members = record.round.members if effect.is_known and record.round else ()
        runs.append(
            FinishedRun(
                record.name,
                record.measured.get("wall_seconds"),
                values.get(record.key),
                tuple(sorted(map(configuration_of, members))),
                effect.widening,
                record.run.choices.get("device"),
                record.round_id,
            )
        )
    return runs


def finished_runs(place: Place) -> dict[str, FinishedRun]:
    """Run → its measurement, for the runs of the plan that are finished as planned. Runs that were
    not needed are left out."""
    own: list[Record] = []
    everything: list[Record] = []
    for head in read_heads(place.folder / "plan.jsonl"):
        with suppress(RecordError):  # to be measured again
            pointer = Pointer.read(place.pointer(head.name))
            if pointer.record is not None and pointer.digest == head.digest:
                found = pointer.records(place.results, place.pointer(head.name))
                records = [record for _, record in found]
                own.append(records[0])
                everything += records
    return {run.name: run for run in finished(own, everything)}


def stop_reason(
    rule: Repeats,
    repeat: int,
    own: Sequence[float],
    others: Sequence[Sequence[float]],
    spent: float,
    widening: float = 1.0,
) -> str | None:
    """Why repeat number `repeat` (from 0) of a configuration is not needed, or None if it is. For
    `own`, `others` and `widening` see `relative_ci_halfwidth`; `spent`: seconds that all runs of
    the experiment have taken so far."""
    if repeat < rule.least:
        return None
    if rule.budget_s is not None and spent >= rule.budget_s:
        return f"{BUDGET} of {rule.budget_s:,.0f} s is used up ({spent:,.0f} s)"
    pooled = any(len(values) > 1 for values in others)
    if rule.until is None or len(own) < (2 if pooled else MIN_RUNS_WITHOUT_OTHERS):
        return None
    half = relative_ci_halfwidth(own, others, widening)
    if half > rule.until:
        return None
    return f"it is known to ± {half:.2%} after {len(own)} runs; required is ± {rule.until:.2%}"


def relative_ci_halfwidth(
    own: Sequence[float], others: Sequence[Sequence[float]], widening: float = 1.0
) -> float:
    """The upper half of the 95 % interval of the geometric mean of `own`, the values of a
    configuration's finished runs, relative to it. Uses Student's t on logarithms, as
    ``tables.stats``, with the larger of the spread of `own` and the spread pooled over `own` and
    `others` (those of each other configuration on its device), times `widening`. Never smaller than
    the interval in the report."""
    logs = [[math.log(value) for value in values] for values in (own, *others) if len(values) > 1]
    squares = sum(statistics.variance(values) * (len(values) - 1) for values in logs)
    pooled = squares / sum(len(values) - 1 for values in logs)
    spread = math.sqrt(max(pooled, statistics.variance(logs[0])))
    quantile = student_quantile(0.95, len(own) - 1)
    return math.expm1(quantile * spread * widening / math.sqrt(len(own)))


def why_not_needed(
    planned: Sequence[Run], place: Place, rule: Repeats, reference: str | None = None
) -> dict[str, str]:
    """Run → why it need not be measured, for the `planned` runs of a round; empty if the round is
    needed. Runs are compared within a round, so either all of its runs are needed or none. `rule`
    is applied to the records that this site has of the experiment; if runs are measured in turns,
    the precision of their ratio to the run named `reference` decides."""
    runs = finished_runs(place)
    spent = sum(run.wall_seconds or 0.0 for run in runs.values())
    reasons = {}
    for configuration, known in _known(planned, runs, reference).items():
        own, others, widening = known
        reason = stop_reason(rule, planned[0].repeat, own, others, spent, widening)
        if reason is None:
            return {}
        reasons[configuration] = reason
    default = min(reasons.values(), default="")  # for the reference, which has no ratio
    return {run.name: reasons.get(run.configuration, default) for run in planned if reasons}


def known_so_far(planned: Sequence[Run], place: Place, reference: str) -> str:
    """What the finished rounds say about the runs `planned` for a round, relative to the run named
    `reference`: ``block 1.51× ± 6 % …``; empty if nothing is known yet, also if the runs had too
    few turns for a ratio."""
    runs = finished_runs(place)
    known = _known(planned, runs, reference)
    compared = {configuration_of(name) for name, run in runs.items() if run.company}
    (base,) = (run for run in planned if run.name == reference)
    found = []
    for run in planned:
        own, others, widening = known.get(run.configuration, ([], [], 1.0))
        if run.name == reference or not own or run.configuration not in compared:
            continue
        speedup = math.exp(-statistics.fmean(map(math.log, own)))
        text = f"{_label(run, base)} {speedup:.2f}×"
        if len(own) > 2:
            text += f" ± {relative_ci_halfwidth(own, others, widening):.1%} at most"
        found.append((speedup, text, len(own)))
    if not found:
        return ""
    found.sort(reverse=True)
    other = next(run for run in planned if run.name != reference)
    rounds = max(count for _, _, count in found)
    after = f"after {rounds} round{'s' if rounds > 1 else ''}"
    texts = ", ".join(text for _, text, _ in found)
    return f"so far, speed relative to {_label(base, other)}: {texts} ({after})"


def _label(run: Run, other: Run) -> str:
    """The choices and overrides of `run` that differ from those of `other`."""
    both = {**other.choices, **other.overrides}
    differing = [value for key, value in run.choices.items() if value != both.get(key)]
    differing += [
        f"{key.rpartition('.')[2]}={value}"
        for key, value in run.overrides.items()
        if value != both.get(key)
    ]
    return " ".join(differing) or run.configuration


def _known(
    planned: Sequence[Run], runs: Mapping[str, FinishedRun], reference: str | None
) -> dict[str, tuple[list[float], list[list[float]], float]]:
    """Configuration of the `planned` runs of a round → its values in the finished `runs`
    (`_values`), those of each other configuration on the round's devices, and the widening of its
    interval. The reference, if it has ratios, is left out."""
    base = configuration_of(reference) if reference else None
    devices = {run.choices.get("device") for run in planned}
    finished: dict[str, list[FinishedRun]] = {run.configuration: [] for run in planned}
    base_values: dict[str | None, float | None] = {}
    widening: dict[str, float] = {}
    for name, run in runs.items():
        configuration = configuration_of(name)
        widening[configuration] = max(run.widening, widening.get(configuration, run.widening))
        if configuration == base and run.company:
            base_values[run.round] = run.value
        if run.device in devices and run.value is not None:
            finished.setdefault(configuration, []).append(run)
    if any(run.company for of_one in finished.values() for run in of_one):
        finished.pop(base or "", None)  # the reference has no ratio
    values = {name: _values(each, base_values if base else None) for name, each in finished.items()}
    return {
        name: (own, [values[other] for other in values if other != name], widening.get(name, 1.0))
        for name, own in values.items()
        if name in {run.configuration for run in planned}
    }


def _values(
    runs: Sequence[FinishedRun], base_values: Mapping[str | None, float | None] | None
) -> list[float]:
    """The values of a configuration's runs: relative to the reference's in their rounds (round →
    value, None for no reference). A run whose turns were disturbed has only seconds, which count
    if no run has more."""
    in_turns = [run for run in runs if run.company]
    pairs = [
        (run.value, base_values.get(run.round) if in_turns and base_values is not None else 1.0)
        for run in in_turns or runs
    ]
    return [value / base for value, base in pairs if value is not None and base is not None]
