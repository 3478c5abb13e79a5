"""Certificates of an experiment from their files (``ARCHITECTURE.md``, "Certificate")."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rnnbench.errors import RecordError
from rnnbench.records.store import read_json

SCHEMA = 2
READ = (1, SCHEMA)
LISTS = ("pairs", "portability")


def read_certificates(folder: Path) -> list[dict[str, Any]]:
    """All certificates in `folder`, by file name; none where it does not exist. One that cannot
    be read is an error: to leave it out would show speed-ups that it may forbid."""
    return [checked(read_json(path), str(path)) for path in sorted(folder.glob("[!.]*.json"))]


def checked(data: Any, where: str) -> dict[str, Any]:
    """`data` with every list of the schema, or a `RecordError` that names what is wrong. One of
    schema 1 says nothing of the steps that were applied."""
    remedy = "delete it and run snakemake again, which certifies anew."
    if not isinstance(data, dict) or data.get("schema") not in READ:
        raise RecordError("is no certificate of schema 1 or 2.", where=where, remedy=remedy)
    found = data.get("implementations")
    if data["schema"] == 1 and isinstance(found, dict):
        found = data["implementations"] = {name: _since_2(one) for name, one in found.items()}
    good = isinstance(found, dict) and all(
        isinstance(one, dict) and "status" in one and isinstance(one.get("applied"), dict)
        for one in found.values()
    )
    good = good and all(isinstance(data.setdefault(name, []), list) for name in LISTS)
    good = good and all(
        isinstance(pair, dict) and {"a", "b", "equal"} <= set(pair) for pair in data["pairs"]
    )
    if not good:
        raise RecordError("is not a whole certificate.", where=where, remedy=remedy)
    return data


def _since_2(entry: Any) -> Any:
    """An entry of schema 1 with what schema 2 has beside it."""
    if not isinstance(entry, dict):
        return entry
    why = entry.get("why") if entry.get("status") == "failed" else None
    return {"applied": {}, "function": None, "function_why": why, **entry}
