"""A round with a single run, and the time that a fake run slept in its turns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rnnbench.records.record import Record
from rnnbench.records.rounds import Result, results_of
from rnnbench.records.store import Place
from rnnbench.running.round import adoptable_records, measure
from rnnbench.tables.effects import effects
from tests.factory import as_run, phase_of


def train(planned: Mapping[str, Any], place: Place, *, label: str = "", **options: Any) -> Record:
    """The record of the run `planned`, measured as the only member of its round."""
    return measure([as_run(planned)], place, label=label, **options)[planned["name"]]


def results(place: Place, *planned: Mapping[str, Any]) -> dict[str, Result]:
    """What the file of the round of these runs says."""
    return results_of(adoptable_records([as_run(line) for line in planned], place))


def slept_in_turns(record: Record) -> list[tuple[float, float]]:
    """(measured seconds, seconds slept according to the fake framework) of a fake run's turns that
    ended in the epoch in which they began."""
    seconds = record.turns["seconds"]
    turns = [(own, slept) for own, slept in zip(seconds, _slept(record), strict=True) if slept]
    assert len(turns) > 3
    return turns


def slept_effects(records: Iterable[Record]) -> dict[str, float]:
    """Implementation → its effect in a round of fake runs, from the seconds that the fake framework
    slept instead of the measured ones. A busy host lengthens both."""
    members = {}
    for record in records:
        seconds = [
            slept or own for own, slept in zip(record.turns["seconds"], _slept(record), strict=True)
        ]
        members[record.run.choices["rnn"]] = {**record.turns, "seconds": seconds}
    return effects(members)


def outside(value: float, *bounds: float) -> float:
    """How far `value` lies outside the range of the `bounds`, 0 within. A measured effect of a fake
    run is expected between that of the seconds which the framework was asked to sleep and that of
    those which it slept (`slept_effects`): a busy host lengthens the second, and cycles in which it
    was busy are left out of the first."""
    return max(min(bounds) - value, value - max(bounds), 0.0)


def _slept(record: Record) -> list[float | None]:
    """The seconds slept in each turn; None if it ended in another epoch than it began."""
    steps = phase_of(record, "evaluate").facts["result"]["steps"]
    columns = (record.turns[name] for name in ("start", "seconds", "steps"))
    turns: list[float | None] = []
    for start, seconds, count in zip(*columns, strict=True):
        slept = [took for began, took in steps if start <= began < start + seconds]
        turns.append(sum(slept) if len(slept) == count else None)
    return turns
