"""Where records and pointers lie, and how they are written and read.

A record is written once and never again; a pointer names the record that stands for a
run at this site. Both appear whole or not at all.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePath
from typing import Any

from rnnbench.errors import RecordError
from rnnbench.records import strict_json
from rnnbench.records.record import Record

_RECORD = re.compile(r"\d{8}T\d{6}_\d{6}Z\.json")


def write_json(path: Path, data: Any) -> None:
    """Writes `data` as JSON, as `write_bytes` does."""
    write_bytes(path, (json.dumps(data, indent=1, allow_nan=False) + "\n").encode("utf-8"))


def write_bytes(path: Path, content: bytes) -> None:
    """Writes `content` so that `path` holds either the old or the whole new bytes, also
    after a power cut."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read_json(path: Path) -> Any:
    """The JSON in `path`, or a `RecordError` in one line."""
    try:
        return strict_json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise RecordError("does not exist.", where=str(path)) from error
    except (OSError, ValueError) as error:
        raise RecordError(
            f"cannot be read as JSON ({error}).",
            where=str(path),
            remedy="move the file aside and run the same command again.",
        ) from error


def record_folder(results: Path, machine: str, name: str) -> Path:
    return results / "records" / machine / name


def is_record(file: PurePath) -> bool:
    """Whether a file in a run's record folder is a record by its name, ``STARTED.json``: not the
    job, the events or the log of an attempt, nor what was set aside."""
    return _RECORD.fullmatch(file.name) is not None


def record_files(results: Path, machine: str = "*", name: str = "*") -> list[Path]:
    """The records' files of these machines and runs (patterns), by path: of one run the oldest
    first."""
    return sorted(filter(is_record, results.glob(f"records/{machine}/{name}/*.json")))


def pointer_to(record: Record, companions: Sequence[str] = ()) -> dict[str, Any]:
    """What a pointer file holds: which record stands for a run at a site, and the records of its
    `companions` (paths below the results folder), where it had some."""
    return {
        **({"companions": list(companions)} if companions else {}),
        "record": f"records/{record.key}.json",
        "digest": record.digest,
        "verdict": record.verdict.status,
        "wall_seconds": record.measured.get("wall_seconds"),
    }


def not_needed(pointer: Any) -> str | None:
    """Why the run of this pointer (its JSON) was left out: its cell is known well enough, or the
    budget is used up (an experiment's ``repeats``). None for a pointer to a record."""
    if isinstance(pointer, dict) and pointer.get("record", "") is None:
        return str(pointer.get("not_needed"))
    return None


def read_record(path: Path) -> Record:
    return Record.from_json(read_json(path), where=str(path))


def read_pointer(results: Path, pointer: Path) -> Record:
    """The record that the pointer file names (a path relative to `results`)."""
    return record_behind(results, pointer, read_json(pointer))


def record_behind(results: Path, pointer: Path, data: Any) -> Record:
    """The record that the pointer file names, whose JSON is `data`."""
    try:
        target = results / data["record"]
    except (TypeError, KeyError) as error:
        raise RecordError("is not a pointer to a record.", where=str(pointer)) from error
    if "\0" in str(target) or not target.resolve().is_relative_to(results.resolve()):
        raise RecordError(f"points outside the results folder: {target}.", where=str(pointer))
    return read_record(target)


def stands(results: Path, pointer: Path, rule: dict[str, Any] | None = None) -> bool:
    """Whether the pointer names a record, and its companions' where it has some, that are there and
    end as one ends (what a power cut leaves of a file does not), or says why by the present `rule`
    there is none. Some 50 µs a record; what else may be wrong `read_pointer` finds."""
    try:
        data = read_json(pointer)
        if not_needed(data):
            return data.get("repeats") == rule
        return all(_is_whole(results / path) for path in (data["record"], *companions_of(data)))
    except (RecordError, OSError, TypeError, KeyError, ValueError):
        return False


def _is_whole(record: Path) -> bool:
    with record.open("rb") as file:
        file.seek(-2, os.SEEK_END)
        return file.read() == b"}\n"


def records_of(results: Path, pointers: Iterable[Path]) -> tuple[list[Record], list[RecordError]]:
    """All readable records behind `pointers`, with those of their companions, and what could not be
    read. Runs that were not needed have none."""
    records: dict[str, Record] = {}
    faults: list[RecordError] = []
    for pointer in pointers:
        try:
            data = read_json(pointer)
            if not_needed(data):
                continue
            for one in [data, *({"record": path} for path in companions_of(data))]:
                record = record_behind(results, pointer, one)
                records[record.key] = record
        except RecordError as error:
            faults.append(error)
    return list(records.values()), faults


def companions_of(pointer: Any) -> list[str]:
    """The records (paths below the results folder) of the companions of a pointer's run."""
    found = pointer.get("companions") if isinstance(pointer, dict) else None
    return [path for path in found if isinstance(path, str)] if isinstance(found, list) else []
