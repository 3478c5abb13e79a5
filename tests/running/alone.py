"""A round of one, for tests about one run; and what a fake run slept in its turns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rnnbench.records.record import Record
from rnnbench.running.round import measure
from rnnbench.running.train import Place


def train(planned: Mapping[str, Any], place: Place, *, label: str = "", **options: Any) -> Record:
    """The record of the run `planned`, measured alone."""
    return measure([planned], place, label=label, **options)[planned["name"]]


def slept_in_turns(record: Record) -> list[tuple[float, float]]:
    """(seconds measured, seconds slept by their own reading) of the turns of a fake run that ended
    in the epoch in which they began."""
    phase = record.phase("train")
    assert phase is not None
    steps = phase.details["slept"]["step"]
    columns = (record.turns[name] for name in ("start", "seconds", "steps"))
    found = []
    for start, seconds, count in zip(*columns, strict=True):
        own = [took for began, took in steps if start <= began < start + seconds]
        if len(own) == count:
            found.append((seconds, sum(own)))
    assert len(found) > 3
    return found
