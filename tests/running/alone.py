"""A round of one, for tests about one run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rnnbench.records.record import Record
from rnnbench.running.round import measure
from rnnbench.running.train import Place


def train(planned: Mapping[str, Any], place: Place, *, label: str = "", **options: Any) -> Record:
    """The record of the run `planned`, measured alone."""
    return measure([planned], place, label=label, **options)[planned["name"]]
