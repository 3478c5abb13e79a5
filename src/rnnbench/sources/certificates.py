"""Reads the certificates of an experiment (``docs/formats.md``, "Certificate")."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rnnbench.errors import RecordError
from rnnbench.records.store import read_json

SCHEMA = 2
READABLE_SCHEMAS = (1, SCHEMA)
LISTS = ("pairs", "portability")


def read_certificates(folders: Iterable[Path]) -> tuple[dict[str, Any], ...]:
    """All certificates in `folders`, of which some may not exist, sorted by file name within each.
    Raises a `RecordError` if one cannot be read: skipping it would show speed-ups that it may
    forbid."""
    files = (path for folder in folders for path in sorted(folder.glob("[!.]*.json")))
    return tuple(checked(read_json(path), str(path)) for path in files)


def checked(data: Any, where: str) -> dict[str, Any]:
    """`data` with every list of the schema filled in. A certificate of schema 1 contains nothing
    about the applied training steps. Raises a `RecordError` that names the fault."""
    remedy = "delete it and run snakemake again, which makes a new certificate."
    if not isinstance(data, dict) or data.get("schema") not in READABLE_SCHEMAS:
        raise RecordError("is not a certificate of schema 1 or 2.", where=where, remedy=remedy)
    entries = data.get("implementations")
    if data["schema"] == 1 and isinstance(entries, dict):
        entries = {name: _upgraded(entry) for name, entry in entries.items()}
        data["implementations"] = entries
    is_complete = (
        isinstance(entries, dict)
        and all(
            isinstance(entry, dict) and "status" in entry and isinstance(entry.get("applied"), dict)
            for entry in entries.values()
        )
        and all(isinstance(data.setdefault(name, []), list) for name in LISTS)
        and all(
            isinstance(pair, dict) and {"a", "b", "equal"} <= set(pair) for pair in data["pairs"]
        )
    )
    if not is_complete:
        raise RecordError("is not a complete certificate.", where=where, remedy=remedy)
    return data


def _upgraded(entry: Any) -> Any:
    """An entry of schema 1 with the keys that schema 2 added."""
    if not isinstance(entry, dict):
        return entry
    why = entry.get("why") if entry.get("status") == "failed" else None
    return {"applied": {}, "function": None, "function_why": why, **entry}
