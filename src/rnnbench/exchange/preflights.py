"""Checks of imported certificates and probes: they must be complete, at the right path, and must
not replace those of another machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from rnnbench.errors import RecordError
from rnnbench.records import strict_json
from rnnbench.records.store import read_json
from rnnbench.sources import certificates, probes

CHECKS = {"certificates": certificates.checked, "probes": probes.checked}


def is_preflight(parts: tuple[str, ...]) -> bool:
    """Whether a path, relative to the results folder, is in a folder of certificates or probes."""
    return len(parts) > 3 and parts[2] in CHECKS


def fault(name: str, data: dict[str, Any]) -> str | None:
    """Why `data` cannot be the file `name` (relative to the results folder), or None."""
    path = PurePosixPath(name)
    if len(path.parts) != 4 or path.suffix != ".json":
        return "is not a path of a certificate or a probe"
    try:
        CHECKS[path.parts[2]](data, name)
    except RecordError as error:
        return error.what.rstrip(".")
    if data.get("key") != path.stem:
        return f"has the key {data.get('key')!r}, not that of its file name"
    return None


def planned_locally(folder: Path) -> bool:
    """Whether the experiment in `folder` (results/SITE/EXPERIMENT) was planned in this project: an
    export does not contain ``certificates.json``."""
    return (folder / "certificates.json").exists()


def keep_existing(name: str, data: Mapping[str, Any], results: Path) -> bool:
    """Whether the existing file `name` is kept because it is the planned one and `data` is not.
    Raises `RecordError` if the existing file is of the machine that names the site and `data` is of
    another machine."""
    file = results / name
    try:
        existing = strict_json.loads(file.read_bytes())
    except ValueError:
        return False
    if not isinstance(existing, dict):
        return False
    if data.get("machine") != existing.get("machine") == PurePosixPath(name).parts[0]:
        raise RecordError(f"{name} exists already and is of another machine", where=name)
    plan = file.parent.with_suffix(".json")
    all_planned = read_json(plan) if plan.exists() else {}
    planned = all_planned.get(file.stem) if isinstance(all_planned, dict) else None
    digest = planned.get("digest") if isinstance(planned, dict) else None
    return digest is not None and existing.get("digest") == digest != data.get("digest")
