"""Certificates of an experiment from their files (``ARCHITECTURE.md``, "Certificate")."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rnnbench.errors import RecordError
from rnnbench.records.store import read_json

SCHEMA = 1
LISTS = ("pairs", "portability")


def read_certificates(folder: Path) -> list[dict[str, Any]]:
    """All certificates in `folder`, by file name; none where it does not exist. One that cannot
    be read is an error: to leave it out would show speed-ups that it may forbid."""
    return [checked(read_json(path), str(path)) for path in sorted(folder.glob("[!.]*.json"))]


def checked(data: Any, where: str) -> dict[str, Any]:
    """`data` with every list of the schema, or a `RecordError` that names what is wrong."""
    remedy = "delete it and run snakemake again, which certifies anew."
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise RecordError("is no certificate of schema 1.", where=where, remedy=remedy)
    found = data.get("implementations")
    good = isinstance(found, dict) and all(
        isinstance(one, dict) and "status" in one for one in found.values()
    )
    good = good and all(isinstance(data.setdefault(name, []), list) for name in LISTS)
    good = good and all(
        isinstance(pair, dict) and {"a", "b", "equal"} <= set(pair) for pair in data["pairs"]
    )
    if not good:
        raise RecordError("is not a whole certificate.", where=where, remedy=remedy)
    return data
