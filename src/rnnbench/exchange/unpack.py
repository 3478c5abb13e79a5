"""Takes over an archive of another machine: everything is checked before anything is written."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from rnnbench.errors import RecordError
from rnnbench.exchange import preflights
from rnnbench.exchange.archive import safe_name
from rnnbench.exchange.pack import BESIDE
from rnnbench.records import strict_json
from rnnbench.records.record import Record
from rnnbench.records.store import companions_of, is_record, not_needed, write_bytes

POINTER = re.compile(r"-s\d+-r\d+\.json$")
Files = Mapping[str, bytes]


@dataclass(frozen=True)
class Taken:
    """What an import will write: `files` that are new, how many were `known`, and which of this
    results folder are `kept`: pointers to a newer record, and what was planned here."""

    files: dict[str, bytes]
    records: int
    known: int
    kept: tuple[str, ...]


def examine(files: Files, results: Path, experiment: str, where: str) -> Taken:
    """Decides about every file, or raises a `RecordError` and nothing is written.

    A record must be where its own machine, name and start say; one that is here already
    with other content is refused, so that nothing of any machine is ever overwritten. Of
    certificates and probes the latest import stands, but for what was planned here and what
    another machine made.
    """
    new: dict[str, bytes] = {}
    kept: list[str] = []
    known = records = 0
    for name, content in files.items():
        if not safe_name(name):
            raise _refused(where, f"{name!r} is no plain name")
        parts = PurePosixPath(name).parts
        if parts[0] == "records":
            records += _check_record(parts, name, content, where)
        elif len(parts) < 3 or parts[1] != experiment:
            raise _refused(where, f"{name} belongs to no run of {experiment}")
        elif is_pointer(parts):
            _check_pointer(name, content, files, results, where)
        elif preflights.is_preflight(parts):
            _check_preflight(name, content, where)
        elif parts[2:] not in (("plan.jsonl",), ("experiment.json",)):
            raise _refused(where, f"{name} is nothing that an export holds")
        here = results / name
        if not here.exists():
            new[name] = content
        elif here.read_bytes() == content:
            known += 1
        elif parts[0] == "records":
            raise _refused(where, f"{name} is here already and says something else")
        elif _stays(name, parts, content, results, where):
            kept.append(name)
        else:
            new[name] = content
    return Taken(new, records, known, tuple(kept))


def write(taken: Taken, results: Path) -> None:
    """Records first, then what points to them, so that no pointer is ever without one."""
    for name in sorted(taken.files, key=lambda name: (not name.startswith("records/"), name)):
        write_bytes(results / name, taken.files[name])


def is_pointer(parts: tuple[str, ...]) -> bool:
    return len(parts) == 3 and POINTER.search(parts[2]) is not None


def _check_record(parts: tuple[str, ...], name: str, content: bytes, where: str) -> int:
    if len(parts) != 4:
        raise _refused(where, f"{name} is no place for a record")
    if name.endswith(BESIDE):
        return 0
    if not is_record(PurePosixPath(name)):
        raise _refused(where, f"{name} is nothing that an export holds")
    record = Record.from_json(_json(name, content, where), where=f"{where}: {name}")
    if f"records/{record.key}.json" != name:
        raise _refused(where, f"{name} says that it is {record.key}")
    return 1


def _check_pointer(name: str, content: bytes, files: Files, results: Path, where: str) -> None:
    data = _json(name, content, where)
    if not_needed(data):
        return
    if not _is_there(data.get("record"), files, results):
        raise _refused(where, f"{name} points to a record that is not there")
    if not all(_is_there(path, files, results) for path in companions_of(data)):
        raise _refused(where, f"{name} names a companion whose record is not there")


def _check_preflight(name: str, content: bytes, where: str) -> None:
    if why := preflights.fault(name, _json(name, content, where)):
        raise _refused(where, f"{name} {why}")


def _stays(name: str, parts: tuple[str, ...], content: bytes, results: Path, where: str) -> bool:
    """Whether what is here already is better than `content`."""
    if is_pointer(parts):
        return _worth((results / name).read_bytes()) > _worth(content)
    if parts[2:] == ("experiment.json",):
        return preflights.planned_here(results.joinpath(*parts[:2]))
    if parts[2:] == ("plan.jsonl",) and preflights.planned_here(results.joinpath(*parts[:2])):
        # Runs may be added to what was planned here; none of it is replaced.
        return not content.startswith((results / name).read_bytes())
    if not preflights.is_preflight(parts):
        return False
    try:
        return preflights.stays(name, _json(name, content, where), results)
    except RecordError as error:
        raise _refused(where, error.what) from None


def _is_there(target: Any, files: Files, results: Path) -> bool:
    """Whether `target` names a record, of this archive or of those that are here."""
    if not isinstance(target, str) or "\0" in target:
        return False
    path = (results / target).resolve()
    here = path.is_relative_to((results / "records").resolve()) and path.is_file()
    return here or (target in files and target.startswith("records/"))


def _worth(content: bytes) -> tuple[str, int]:
    """Of a pointer: when its run started, and how many companions it names (of one and the same
    run, a pointer that was made from its record alone may lack them)."""
    try:
        pointer = json.loads(content)
        return Path(pointer["record"]).stem, len(companions_of(pointer))
    except (ValueError, KeyError, TypeError):
        return "", 0


def _json(name: str, content: bytes, where: str) -> dict[str, Any]:
    try:
        data = strict_json.loads(content)
    except ValueError:
        raise _refused(where, f"{name} is no JSON") from None
    if not isinstance(data, dict):
        raise _refused(where, f"{name} is no JSON object")
    return data


def _refused(where: str, why: str) -> RecordError:
    return RecordError(
        f"{why}; nothing was imported.", where=where, remedy="export it again at its machine."
    )
