"""Certificates and probes that another machine made: whole, in their own place, and in the place of
no other machine's."""

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
    """Whether a name below the results folder is in the place of a certificate or a probe."""
    return len(parts) > 3 and parts[2] in CHECKS


def fault(name: str, data: dict[str, Any]) -> str | None:
    """What is wrong with `data` as the file `name` below the results folder, in words, or None."""
    path = PurePosixPath(name)
    if len(path.parts) != 4 or path.suffix != ".json":
        return "is no place for a certificate or a probe"
    try:
        CHECKS[path.parts[2]](data, name)
    except RecordError as error:
        return error.what.rstrip(".")
    if data.get("key") != path.stem:
        return f"says that it is {data.get('key')}"
    return None


def planned_here(folder: Path) -> bool:
    """Whether the experiment in `folder` (below a site's) was planned in this project: what is to
    be certified travels in no export."""
    return (folder / "certificates.json").exists()


def stays(name: str, data: Mapping[str, Any], results: Path) -> bool:
    """Whether the one that is here is kept: it is what was planned here, and `data` is not.
    Raises `RecordError` where the one here is of the machine that the site is, and `data` of
    another one."""
    here = results / name
    try:
        ours = strict_json.loads(here.read_bytes())
    except ValueError:
        return False
    if not isinstance(ours, dict):
        return False
    if data.get("machine") != ours.get("machine") == PurePosixPath(name).parts[0]:
        raise RecordError(f"{name} is here already, of another machine", where=name)
    plan = here.parent.with_suffix(".json")
    planned = read_json(plan) if plan.exists() else {}
    line = planned.get(here.stem) if isinstance(planned, dict) else None
    wanted = line.get("digest") if isinstance(line, dict) else None
    return wanted is not None and ours.get("digest") == wanted != data.get("digest")
