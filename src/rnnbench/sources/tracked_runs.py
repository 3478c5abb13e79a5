"""Which MLflow run a record became, as ``rnnbench track`` noted it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rnnbench.errors import RecordError
from rnnbench.records.store import read_json


def read_tracked(folders: Iterable[Path]) -> dict[str, str]:
    """Record key → MLflow's run id, from ``tracked/*.json`` of an experiment's `folders`. What
    cannot be read is left out: the record names itself, and tracking writes the file anew."""
    found: dict[str, str] = {}
    for path in (path for folder in folders for path in sorted(folder.glob("tracked/*.json"))):
        try:
            entries = list(read_json(path).values())
            found |= {str(entry["record"]): str(entry["run_id"]) for entry in entries}
        except (RecordError, AttributeError, TypeError, KeyError):
            continue
    return found
