"""The MLflow run of each record, as written by ``rnnbench track``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rnnbench.errors import RecordError
from rnnbench.records.store import read_json


def read_tracked(folders: Iterable[Path]) -> dict[str, str]:
    """Record key → MLflow run id, from ``tracked/*.json`` in an experiment's `folders`. Unreadable
    files are skipped: the next ``rnnbench track`` writes them again."""
    run_ids: dict[str, str] = {}
    for path in (path for folder in folders for path in sorted(folder.glob("tracked/*.json"))):
        try:
            entries = list(read_json(path).values())
            run_ids |= {str(entry["record"]): str(entry["run_id"]) for entry in entries}
        except (RecordError, AttributeError, TypeError, KeyError):
            continue
    return run_ids
