"""Imports the files of another machine: all are checked before any is written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from rnnbench.errors import RecordError
from rnnbench.exchange.archive import safe_name
from rnnbench.exchange.pack import ATTACHED_SUFFIXES, PREFLIGHTS
from rnnbench.records import strict_json
from rnnbench.records.record import Record
from rnnbench.records.store import (
    companions_of,
    is_pointer,
    is_record,
    not_needed,
    read_json,
    write_bytes,
)

Files = Mapping[str, bytes]


@dataclass(frozen=True)
class CheckedImport:
    """The new `files` to write, the number of `records` and of files that are `known` already, and
    the existing files that are `kept`: pointers to a newer record, and files planned locally."""

    files: dict[str, bytes]
    records: int
    known: int
    kept: tuple[str, ...]


def examine(files: Files, results: Path, experiment: str, where: str) -> CheckedImport:
    """Decides for each file whether it is written. Raises `RecordError` if any file is invalid.

    A record's path must agree with its machine, name and start. A record that exists already with
    other content is refused, so that no record is ever overwritten. Certificates and probes replace
    existing ones, except those that were planned locally or that another machine made.
    """
    new: dict[str, bytes] = {}
    kept: list[str] = []
    known = records = 0
    for name, content in files.items():
        if not safe_name(name):
            raise _refused(where, f"{name!r} is not a safe name")
        parts = PurePosixPath(name).parts
        if parts[0] == "records":
            records += _check_record(parts, name, content, where)
        elif len(parts) < 3 or parts[1] != experiment:
            raise _refused(where, f"{name} does not belong to a run of {experiment}")
        elif len(parts) == 3 and is_pointer(PurePosixPath(name)):
            _check_pointer(name, content, files, results, where)
        elif _is_preflight(parts):
            _check_preflight(name, content, where)
        elif parts[2:] not in (("plan.jsonl",), ("experiment.json",)):
            raise _refused(where, f"{name} is not a file of an export")
        existing = results / name
        if not existing.exists():
            new[name] = content
        elif existing.read_bytes() == content:
            known += 1
        elif parts[0] == "records":
            raise _refused(where, f"{name} exists already with other content")
        elif _keep_existing(name, parts, content, results, where):
            kept.append(name)
        else:
            new[name] = content
    return CheckedImport(new, records, known, tuple(kept))


def write(checked: CheckedImport, results: Path) -> None:
    """Writes the records first, so that no pointer ever lacks its record."""
    for name in sorted(checked.files, key=lambda name: (not name.startswith("records/"), name)):
        write_bytes(results / name, checked.files[name])


def _check_record(parts: tuple[str, ...], name: str, content: bytes, where: str) -> int:
    if len(parts) != 4:
        raise _refused(where, f"{name} is not a path of a record")
    if name.endswith(ATTACHED_SUFFIXES):
        return 0
    if not is_record(PurePosixPath(name)):
        raise _refused(where, f"{name} is not a file of an export")
    record = Record.from_json(_json(name, content, where), where=f"{where}: {name}")
    if f"records/{record.key}.json" != name:
        raise _refused(where, f"{name} holds the record {record.key}")
    return 1


def _check_pointer(name: str, content: bytes, files: Files, results: Path, where: str) -> None:
    data = _json(name, content, where)
    if not_needed(data):
        return
    if not _exists(data.get("record"), files, results):
        raise _refused(where, f"{name} points to a record that does not exist")
    if not all(_exists(path, files, results) for path in companions_of(data)):
        raise _refused(where, f"{name} names a companion whose record does not exist")


def _is_preflight(parts: tuple[str, ...]) -> bool:
    return len(parts) > 3 and parts[2] in PREFLIGHTS


def _check_preflight(name: str, content: bytes, where: str) -> None:
    """A certificate or probe must be complete and at the path of its key."""
    path, data = PurePosixPath(name), _json(name, content, where)
    if len(path.parts) != 4 or path.suffix != ".json":
        raise _refused(where, f"{name} is not a path of a certificate or a probe")
    try:
        PREFLIGHTS[path.parts[2]](data, name)
    except RecordError as error:
        raise _refused(where, f"{name} {error.what.rstrip('.')}") from None
    if data.get("key") != path.stem:
        raise _refused(where, f"{name} has the key {data.get('key')!r}, not that of its file name")


def _keep_existing(
    name: str, parts: tuple[str, ...], content: bytes, results: Path, where: str
) -> bool:
    """Whether the existing file takes precedence over `content`."""
    existing = (results / name).read_bytes()
    if _is_preflight(parts):
        return _keep_preflight(name, existing, _json(name, content, where), results, where)
    if is_pointer(PurePosixPath(name)):
        return _precedence(existing) > _precedence(content)
    # An export does not contain ``certificates.json``: with it, the plan was made in this project.
    # An import may add runs to such a plan but not replace any.
    is_local = results.joinpath(*parts[:2], "certificates.json").exists()
    return is_local and (parts[2] == "experiment.json" or not content.startswith(existing))


def _keep_preflight(
    name: str, content: bytes, data: Mapping[str, Any], results: Path, where: str
) -> bool:
    """Whether the existing file, `content`, is kept because it is the planned one and `data` is
    not. Raises `RecordError` if it is of the machine that names the site and `data` is not."""
    try:
        existing = _json(name, content, where)
    except RecordError:
        return False
    if data.get("machine") != existing.get("machine") == PurePosixPath(name).parts[0]:
        raise _refused(where, f"{name} exists already and is of another machine")
    plan = (results / name).parent.with_suffix(".json")
    planned = (read_json(plan) if plan.exists() else {}).get(PurePosixPath(name).stem) or {}
    digest = planned.get("digest")
    return digest is not None and existing.get("digest") == digest != data.get("digest")


def _exists(target: Any, files: Files, results: Path) -> bool:
    """Whether `target` names a record of the import or an existing one."""
    if not isinstance(target, str) or "\0" in target:
        return False
    path = (results / target).resolve()
    exists = path.is_relative_to((results / "records").resolve()) and path.is_file()
    return exists or (target in files and target.startswith("records/"))


def _precedence(content: bytes) -> tuple[str, int]:
    """The start of a pointer's run and the number of companions that the pointer names: a pointer
    derived from the record alone may lack them."""
    try:
        pointer = json.loads(content)
        return Path(pointer["record"]).stem, len(companions_of(pointer))
    except (ValueError, KeyError, TypeError):
        return "", 0


def _json(name: str, content: bytes, where: str) -> dict[str, Any]:
    try:
        data = strict_json.loads(content)
    except ValueError:
        raise _refused(where, f"{name} is not JSON") from None
    if not isinstance(data, dict):
        raise _refused(where, f"{name} is not a JSON object")
    return data


def _refused(where: str, why: str) -> RecordError:
    return RecordError(
        f"{why}; nothing was imported.", where=where, remedy="export it again on its machine."
    )
