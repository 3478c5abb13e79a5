"""Reads the certificates of an experiment (``docs/formats.md``, "Certificate")."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import msgspec

from rnnbench.errors import RecordError
from rnnbench.records.store import read_json


class Implementation(msgspec.Struct):
    status: str
    function: Any
    function_why: str | None
    probed: dict[str, Any]
    applied: dict[str, Any]


class Pair(msgspec.Struct):
    a: str
    b: str
    equal: bool


class Certificate(msgspec.Struct):
    """The keys that the tables rely on."""

    schema: Literal[1, 2, 3]
    implementations: dict[str, Implementation]
    pairs: list[Pair] = []
    portability: list[Any] = []


def read_certificates(folders: Iterable[Path]) -> tuple[dict[str, Any], ...]:
    """All certificates in `folders`, of which some may not exist, sorted by file name within each.
    Raises a `RecordError` if one cannot be read: skipping it would show speed-ups that it may
    forbid."""
    files = (path for folder in folders for path in sorted(folder.glob("[!.]*.json")))
    return tuple(checked(read_json(path), str(path)) for path in files)


def checked(data: Any, where: str) -> dict[str, Any]:
    """`data` with every list of the schema filled in. A certificate of schema 1 contains nothing
    about the applied training steps, and one of schema 2 does not say which batches it tested.
    Raises a `RecordError` that names the fault."""
    if isinstance(data, dict) and data.get("schema") in (1, 2):
        entries = data.get("implementations")
        if isinstance(entries, dict):
            data["implementations"] = {name: _upgraded(entry) for name, entry in entries.items()}
    try:
        msgspec.convert(data, Certificate)
    except msgspec.ValidationError as error:
        raise RecordError(
            f"is not a complete certificate of schema 1, 2 or 3: {error}.",
            where=where,
            remedy="delete it and run snakemake again, which makes a new certificate.",
        ) from error
    return {"pairs": [], "portability": [], **data}


def _upgraded(entry: Any) -> Any:
    """An entry of schema 1 or 2 with the keys that schemas 2 and 3 added."""
    if not isinstance(entry, dict):
        return entry
    why = entry.get("why") if entry.get("status") == "failed" else None
    entry = {"applied": {}, "function": None, "function_why": why, **entry}
    layers = {"batches": (), "wrong": None, "why": "its certificate states no batches"}
    return {**entry, "probed": dict.fromkeys(entry["applied"], layers)}
