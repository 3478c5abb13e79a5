"""A round with a single run, and the time that a fake run slept in its turns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rnnbench.records.record import Record
from rnnbench.running.round import measure
from rnnbench.running.train import Place
from tests.factory import as_run


def train(planned: Mapping[str, Any], place: Place, *, label: str = "", **options: Any) -> Record:
    """The record of the run `planned`, measured as the only member of its round."""
    return measure([as_run(planned)], place, label=label, **options)[planned["name"]]


def slept_in_turns(record: Record) -> list[tuple[float, float]]:
    """(measured seconds, seconds slept according to the fake framework) of a fake run's turns that
    ended in the epoch in which they began."""
    phase = record.phase("train")
    assert phase is not None
    steps = phase.details["slept"]["step"]
    columns = (record.turns[name] for name in ("start", "seconds", "steps"))
    turns = []
    for start, seconds, count in zip(*columns, strict=True):
        slept = [took for began, took in steps if start <= began < start + seconds]
        if len(slept) == count:
            turns.append((seconds, sum(slept)))
    assert len(turns) > 3
    return turns
