"""Decides whether the next repeat of an experiment's round is needed, from its finished runs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rnnbench.errors import RecordError
from rnnbench.grid.experiment import Repeats
from rnnbench.grid.point import configuration_of
from rnnbench.planning.forecast import relative_ci_halfwidth, stop_reason
from rnnbench.records.plan_file import read_heads
from rnnbench.records.record import Record, Run
from rnnbench.records.store import not_needed, read_json, records_behind

if TYPE_CHECKING:
    from rnnbench.records.store import Place


@dataclass(frozen=True)
class FinishedRun:
    """A finished run: its device, its share of the wall time, its value (`relative_values`), its
    round if the value is relative to the others in it, and the factor by which the interval of such
    values is wider (`effects.Effect`)."""

    device: str | None
    wall_seconds: float
    value: float | None
    round: str | None
    widening: float = 1.0


def finished_runs(place: Place) -> dict[str, FinishedRun]:
    """Run → its measurement, for the runs of the plan that are finished as planned. Runs that were
    not needed are left out."""
    # Imports NumPy, which the process that measures should not hold in memory.
    from rnnbench.tables.effects import effects_of, relative_values

    devices: dict[str, str | None] = {}
    own: dict[str, Record] = {}
    everything: list[Record] = []
    for head in read_heads(place.folder / "plan.jsonl"):
        file = place.pointer(head.name)
        with suppress(RecordError, AttributeError, KeyError, TypeError):  # to be measured again
            pointer = read_json(file)
            if not_needed(pointer) or pointer["digest"] != head.digest:
                continue
            records = [record for _, record in records_behind(place.results, file, pointer)]
            devices[head.name], own[head.name] = head.choices.get("device"), records[0]
            everything += records
    effects = effects_of(everything)
    values = relative_values(everything, effects)
    return {
        name: FinishedRun(
            devices[name],
            record.measured.get("wall_seconds") or 0.0,
            values.get(record.key),
            record.round_id if record.key in effects else None,
            effects[record.key].widening if record.key in effects else 1.0,
        )
        for name, record in own.items()
    }


def why_not_needed(
    planned: Sequence[Run], place: Place, rule: Repeats, reference: str | None = None
) -> dict[str, str]:
    """Run → why it need not be measured, for the `planned` runs of a round; empty if the round is
    needed. Runs are compared within a round, so either all of its runs are needed or none.

    **Arguments:**

    - `rule`: the experiment's ``repeats``, applied to the records that this site has of it.
    - `reference`: name of the run that the others are compared with. If runs are measured in turns,
      the precision of their ratio to it decides.
    """
    runs = finished_runs(place)
    spent = sum(run.wall_seconds for run in runs.values())
    values = _known_values(planned, runs, reference)
    reasons = {}
    for configuration in {run.configuration for run in planned} & set(values):
        others = [known for other, known in values.items() if other != configuration]
        own, widening = values[configuration], _widening(runs, configuration)
        reason = stop_reason(rule, planned[0].repeat, own, others, spent, widening)
        if reason is None:
            return {}
        reasons[configuration] = reason
    default = min(reasons.values(), default="")  # for the reference, which has no ratio
    return {run.name: reasons.get(run.configuration, default) for run in planned if reasons}


def known_so_far(planned: Sequence[Run], place: Place, reference: str) -> str:
    """What the finished rounds say about the runs `planned` for a round, relative to the run named
    `reference`: ``block 1.51× ± 6 % …``; empty if nothing is known yet."""
    runs = finished_runs(place)
    values = _known_values(planned, runs, reference)
    (base,) = (run for run in planned if run.name == reference)
    found = []
    for run in planned:
        own = values.get(run.configuration, [])
        if run.name == reference or not own:
            continue
        others = [known for other, known in values.items() if other != run.configuration]
        speedup = math.exp(-statistics.fmean(map(math.log, own)))
        text = f"{_label(run, base)} {speedup:.2f}×"
        if len(own) > 2:
            half = relative_ci_halfwidth(own, others, _widening(runs, run.configuration))
            text += f" ± {half:.1%}"
        found.append((speedup, text, len(own)))
    if not found:
        return ""
    found.sort(reverse=True)
    other = next(run for run in planned if run.name != reference)
    rounds = max(count for _, _, count in found)
    after = f"after {rounds} round{'s' if rounds > 1 else ''}"
    texts = ", ".join(text for _, text, _ in found)
    return f"so far, as fast as {_label(base, other)}: {texts} ({after})"


def _widening(runs: Mapping[str, FinishedRun], configuration: str) -> float:
    own = (run.widening for name, run in runs.items() if configuration_of(name) == configuration)
    return max(own, default=1.0)


def _label(run: Run, other: Run) -> str:
    """The choices of `run` that differ from those of `other`."""
    differing = [value for key, value in run.choices.items() if value != other.choices.get(key)]
    return " ".join(differing) or run.configuration


def _known_values(
    planned: Sequence[Run], runs: Mapping[str, FinishedRun], reference: str | None
) -> dict[str, list[float]]:
    """Configuration → its values in the finished `runs` (`_values`), for those on the devices of
    the `planned` runs of a round. The reference, if it has ratios, is left out."""
    base = configuration_of(reference) if reference else None
    base_values = {
        run.round: run.value for name, run in runs.items() if configuration_of(name) == base
    }
    devices = {run.choices.get("device") for run in planned}
    finished: dict[str, list[FinishedRun]] = {run.configuration: [] for run in planned}
    for name, run in runs.items():
        if run.device in devices and run.value is not None:
            finished.setdefault(configuration_of(name), []).append(run)
    if any(run.round for of_one in finished.values() for run in of_one):
        finished.pop(base or "", None)  # the reference has no ratio
    return {
        configuration: _values(of_one, base_values if base else None)
        for configuration, of_one in finished.items()
    }


def _values(
    runs: Sequence[FinishedRun], base_values: Mapping[str | None, float | None] | None
) -> list[float]:
    """The values of a configuration's runs: relative to the reference's in their rounds (round →
    value, None for no reference). A run whose turns were disturbed has only seconds, which count
    if no run has more."""
    in_turns = [run for run in runs if run.round is not None]
    pairs = [
        (run.value, base_values.get(run.round) if in_turns and base_values is not None else 1.0)
        for run in in_turns or runs
    ]
    return [value / base for value, base in pairs if value is not None and base is not None]


def rule_of(place: Place) -> Repeats | None:
    """The experiment's ``repeats``, as planned."""
    stated = read_facts(place).get("repeats")
    return Repeats(**stated) if stated else None


def read_facts(place: Place) -> Mapping[str, Any]:
    """The facts of ``experiment.json``, written with the plan; empty if it cannot be read."""
    try:
        facts = read_json(place.folder / "experiment.json")
    except RecordError:
        return {}
    return facts if isinstance(facts, Mapping) else {}
