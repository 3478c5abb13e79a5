"""Paths of records, and how they are written and read.

A record is written once and never changed. All files are written atomically. What was imported
from other machines is in a folder of its own with the same layout, so that it can neither replace
nor be taken for a result of this machine.
"""

from __future__ import annotations

import glob
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from typing import Any, TypeVar

import msgspec

from rnnbench.errors import RecordError
from rnnbench.plain_text import may_hold_controls, plain
from rnnbench.records.record import Record

IMPORTED = "imported"  # the folder in the results folder of what came from other machines
# Folders of a results folder that are not sites.
RESERVED = {"cache", "compare", "envs", IMPORTED, "records"}
# Of records that were set aside: they cannot be read, or `rnnbench retry` measures their run again.
UNREADABLE, RETRIED = ".unreadable", ".retried"
NOT_TRACKED = "not_tracked"  # the key of the error in a file of `rnnbench track`
Content = TypeVar("Content")
Name = TypeVar("Name", str, Path)
MAX_DEPTH = 60
_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_MANY = b"0" * 21  # digits: of no integer in a file of ours
_RECORD = re.compile(r"\d{8}T\d{6}_\d{6}Z\.json")


@dataclass(frozen=True)
class Place:
    """The place of a run: the project's root, its results folder, the site, the experiment, and the
    file whose lock allows only one process on this host to time runs."""

    root: Path
    results: Path
    site: str
    experiment: str
    timing_lock: Path

    @property
    def folder(self) -> Path:
        return self.results / self.site / self.experiment


def write_json(path: Path, data: Any) -> None:
    """Writes `data`, which may contain msgspec structs, as JSON, atomically."""
    write_bytes(path, json_bytes(data))


def json_bytes(data: Any) -> bytes:
    text = json.dumps(data, indent=1, allow_nan=False, default=msgspec.to_builtins)
    return (text + "\n").encode()


def write_bytes(path: Path, content: bytes) -> None:
    """Writes `content` atomically: even after a power failure, `path` has either all of the old
    bytes or all of the new ones."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except OSError as error:  # the error of a write does not name the file
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        Path(temporary).unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)  # the new name must reach the disk, too
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read_json(path: Path) -> Any:
    """The JSON in `path`. Raises a `RecordError` of one line if it cannot be read."""
    try:
        return strict_loads(path.read_bytes())
    except FileNotFoundError as error:
        raise RecordError("does not exist.", where=str(path)) from error
    except (OSError, ValueError) as error:
        raise RecordError(
            f"cannot be read as JSON ({error}).",
            where=str(path),
            remedy="move the file aside and run the same command again.",
        ) from error


def as_kind(data: Any, kind: type[Content], fault: str, where: object, remedy: str) -> Content:
    """`data` as a `kind`. Raises a `RecordError` with the `fault` if it is not one."""
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise RecordError(f"{fault} ({error}).", where=str(where), remedy=remedy) from error


def strict_loads(content: bytes) -> Any:
    """The JSON in `content` of an untrusted file, without control characters. Raises a `ValueError`
    with a readable message for NaN, infinity, numbers out of range, deep nesting and lone
    surrogates."""
    try:
        data = msgspec.json.decode(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if isinstance(data, dict | list):
        _check_depth(data, MAX_DEPTH)
    if _MANY in content.translate(_DIGITS):
        _check_integers(data)
    return _plain(data) if may_hold_controls(content) else data


def _check_depth(data: Any, depth: int) -> None:
    if depth == 0:
        raise ValueError("it is nested too deeply")
    for item in data.values() if type(data) is dict else data:
        if type(item) is dict or type(item) is list:  # most items are numbers
            _check_depth(item, depth - 1)


def _check_integers(data: Any) -> None:
    if isinstance(data, int) and abs(data) >= 10**20:
        raise ValueError(f"the number {str(data)[:40]} is too large")
    if isinstance(data, dict | list):
        for item in data.values() if isinstance(data, dict) else data:
            _check_integers(item)


def _plain(data: Any) -> Any:
    if isinstance(data, dict):
        return {plain(key): _plain(item) for key, item in data.items()}
    if isinstance(data, list):
        return [_plain(item) for item in data]
    return plain(data) if isinstance(data, str) else data


def roots(results: Path) -> tuple[Path, Path]:
    """The folders that have sites and records: the results folder, and the one of imports."""
    return results, results / IMPORTED


def site_folders(results: Path, experiment: str = "*", site: str = "*") -> list[Path]:
    """The folders of the experiments at the sites that match the patterns, imported ones last."""
    folders = []
    for root in roots(results):
        for folder in sorted(root.glob("*/*")):
            own = folder.parent.name
            if own != IMPORTED and fnmatchcase(own, site) and fnmatchcase(folder.name, experiment):
                folders.append(folder)
    return folders


def planned_folders(results: Path, experiment: str, site: str = "*") -> list[Path]:
    """The `site_folders` that have a plan."""
    folders = site_folders(results, experiment, site)
    return [folder for folder in folders if (folder / "plan.jsonl").is_file()]


def imported_machines(results: Path) -> frozenset[str]:
    """The machines whose records were imported."""
    return frozenset(folder.name for folder in (results / IMPORTED / "records").glob("*"))


def readable(
    paths: Iterable[Name], read: Callable[[Name], Content]
) -> tuple[list[Content], list[RecordError]]:
    """What `read` returns for each of the `paths`, and the errors of those that it cannot read."""
    found, faults = [], []
    for path in paths:
        try:
            found.append(read(path))
        except RecordError as error:
            faults.append(error)
    return found, faults


def is_record(file: PurePath) -> bool:
    """Whether a file in a run's record folder is named like a record, ``STARTED.json``. The job,
    events and log files of an attempt and unreadable records that were set aside are not."""
    return _RECORD.fullmatch(file.name) is not None


def record_files(results: Path, machine: str = "*", name: str = "*") -> list[Path]:
    """The record files of the machines and runs that match the glob patterns, sorted by path: the
    oldest record of a run comes first."""
    return sorted(filter(is_record, results.glob(f"records/{machine}/{name}/*.json")))


def retried_files(results: Path, name: str) -> list[Path]:
    """The record files of a run that ``rnnbench retry`` has set aside, the oldest first."""
    return sorted(results.glob(f"records/*/{glob.escape(name)}/*{RETRIED}"))


def why_not_tracked(tracked: Path) -> str | None:
    """Why the records of this file of ``rnnbench track`` could not be logged, e.g. because the
    server was down; None if they are in MLflow or the file does not exist."""
    try:
        why = read_json(tracked).get(NOT_TRACKED)
    except (RecordError, AttributeError):
        return None
    return str(why) if why else None


def write_record(results: Path, record: Record) -> Path:
    """Writes the record and returns its file."""
    write_json(results / record.path, record)
    return results / record.path


def read_record(path: Path) -> Record:
    return Record.from_json(read_json(path), where=str(path))
