"""Results from another machine: what of them may be written, and where.

They are untrusted data. Each file is read as the tables read it, pointers are made again from the
records that they name, and everything is written into the folder of imported results, whose sites
and machines are never those of this project.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from rnnbench.axes import REQUIRED
from rnnbench.errors import RecordError
from rnnbench.exchange.archive import safe_name
from rnnbench.grid.identity import digest_of, full_identity
from rnnbench.records.plan_file import read_runs
from rnnbench.records.record import Record
from rnnbench.records.run import Run
from rnnbench.records.store import (
    RESERVED,
    companions_of,
    is_pointer,
    is_record,
    json_bytes,
    not_needed,
    pointer_to,
    read_json,
    read_record,
    record_behind,
    write_bytes,
)
from rnnbench.sources import certificates, probes

ATTACHED_SUFFIXES = (".events.jsonl", ".log")  # of a record; exports leave logs out
# Folder of an experiment → the function that checks a file in it.
PREFLIGHTS = {"certificates": certificates.checked, "probes": probes.checked}
Refuse = Callable[[str], RecordError]
UNPACKED = ".import-"  # beginning of the names of folders in which imports are unpacked


class Skipped(msgspec.Struct):
    name: str
    why: str


class Facts(msgspec.Struct):
    """``experiment.json``: what a report needs about the experiment in addition to its runs."""

    name: str
    title: str = ""
    about: str = ""
    reference: dict[str, str] = {}
    lead: str = "time"
    repeats: dict[str, Any] | None = None
    skipped: list[Skipped] = []


@dataclass
class Incoming:
    """The `files` to write (name in the `root` folder → content), the number of `records` among
    them, that of files that are `known` already, the names of existing files that are `kept`, and
    of those that are `replaced`."""

    root: Path
    files: dict[str, bytes | Path] = field(default_factory=dict)
    records: int = 0
    known: int = 0
    kept: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)

    def add(self, name: str, content: bytes | Path, keep: bool = False) -> None:
        """Adds a file, unless it exists with this content, or is to be kept if it exists."""
        existing = self.root / name
        if not existing.exists():
            self.files[name] = content
        elif existing.read_bytes() == _bytes(content):
            self.known += 1
        elif keep:
            self.kept.append(name)
        else:
            self.files[name] = content
            self.replaced.append(name)

    def write(self) -> None:
        """Writes the records first, so that no pointer ever lacks its record."""
        for name in sorted(self.files, key=lambda name: (not name.startswith("records/"), name)):
            write_bytes(self.root / name, _bytes(self.files[name]))


def examine(folder: Path, root: Path, experiment: str, local: Collection[str]) -> Incoming:
    """Decides what of the files in `folder`, which has the layout of a results folder, is written
    into `root`. Raises `RecordError` if any of them is not what an export contains.

    No record is ever replaced. A pointer is replaced by one to a newer record, a certificate or
    probe by one that was planned differently. A plan keeps the runs that have a result.

    `local`: names that no site and no machine may have, because they are this project's own.
    """
    incoming = Incoming(root)
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    names = [file.relative_to(folder).as_posix() for file in files]
    for name in names:
        parts = name.split("/")
        refuse = partial(_refuse, name)
        if not safe_name(name) or len(parts) < 3:
            raise refuse("is not a file of an export")
        owner = parts[1] if parts[0] == "records" else parts[0]
        if owner in local:
            raise RecordError(
                f"holds results of {owner}, which is a machine or site of this project.",
                where=name,
                remedy="export the other sites only (--site); a backup of your own is brought back "
                "with --restore.",
            )
        if parts[0] == "records":
            incoming.records += _is_record(folder, parts, refuse)
            existing = root / name
            if existing.exists() and existing.read_bytes() != (folder / name).read_bytes():
                raise refuse("exists already with other content")
            incoming.add(name, folder / name)
        elif parts[0] in RESERVED or parts[1] != experiment:
            raise refuse(f"does not belong to a run of {experiment}")
    for name in names:
        if not name.startswith("records/"):
            _add_file(incoming, folder, name, experiment, local)
    return incoming


def _is_record(folder: Path, parts: list[str], refuse: Refuse) -> bool:
    """Whether a file below ``records/`` is a record; it may also be the events or log of one."""
    file = folder.joinpath(*parts)
    if len(parts) != 4:
        raise refuse("is not a path of a record")
    if file.name.endswith(ATTACHED_SUFFIXES):
        if not (file.parent / f"{file.name.partition('.')[0]}.json").is_file():
            raise refuse("belongs to no record")
        return False
    if not is_record(file):
        raise refuse("is not a file of an export")
    record = read_record(file)
    if f"records/{record.key}.json" != "/".join(parts):
        raise refuse(f"holds the record {record.key}")
    _check_run(record.run, refuse)
    return True


def _check_run(run: Run, refuse: Refuse) -> None:
    """Raises unless a run has a safe name, the required axes and the digest of its own
    configuration."""
    if "/" in run.name or not safe_name(run.name):
        raise refuse(f"has a run whose name is not safe, {run.name[:80]!r}")
    if lacking := [axis for axis in REQUIRED if not run.choices.get(axis)]:
        raise refuse(f"has a run without {', '.join(lacking)}")
    if run.digest != digest_of(full_identity(run.config, run.identity)):
        raise refuse(f"has a digest that is not that of the configuration of {run.name}")


def _add_file(
    incoming: Incoming, folder: Path, name: str, experiment: str, local: Collection[str]
) -> None:
    """Adds a file of an experiment at a site."""
    parts, refuse = name.split("/"), partial(_refuse, name)
    file, existing = folder / name, incoming.root / name
    if len(parts) == 4 and parts[2] in PREFLIGHTS and file.suffix == ".json":
        data = PREFLIGHTS[parts[2]](read_json(file), name)
        if data["key"] != file.stem or data["machine"] in local:
            raise refuse(f"says that it is {data['key']!r}, made on {data['machine']!r}")
        incoming.add(name, file, keep=_digest_in(existing) == data["digest"] is not None)
    elif len(parts) != 3:
        raise refuse("is not a file of an export")
    elif is_pointer(file):
        pointer = _pointer(folder, incoming.root, file, refuse)
        keep = existing.exists() and _precedence(read_json(existing)) > _precedence(pointer)
        incoming.add(name, json_bytes(pointer), keep)
    elif parts[2] == "plan.jsonl":
        incoming.add(name, _merged_plan(file, existing, refuse))
    elif parts[2] == "experiment.json":
        try:
            facts = msgspec.convert(read_json(file), Facts)
        except msgspec.ValidationError as error:
            raise refuse(f"does not describe an experiment ({error})") from None
        if facts.name != experiment:
            raise refuse(f"describes the experiment {facts.name!r}")
        incoming.add(name, json_bytes(msgspec.to_builtins(facts)))
    else:
        raise refuse("is not a file of an export")


def _pointer(folder: Path, root: Path, file: Path, refuse: Refuse) -> dict[str, Any]:
    """The pointer that follows from the records that the one in `file` names; of one to no record,
    why it was not needed."""
    data = read_json(file)
    if why := not_needed(data):
        rule = data.get("repeats")
        return {"record": None, "digest": str(data.get("digest")), "not_needed": why,
                "repeats": rule if isinstance(rule, dict) else None}  # fmt: skip
    record, *companions = _named_records(folder, root, file, data)
    if record.name != file.stem or record.is_companion:
        raise refuse(f"points to the record {record.key}")
    for other in companions:
        if not other.is_companion or (other.machine, other.round_id) != (
            record.machine, record.round_id
        ):  # fmt: skip
            raise refuse(f"names {other.key}, which is not a companion of its run")
    return pointer_to(record, [f"records/{other.key}.json" for other in companions])


def _named_records(folder: Path, root: Path, file: Path, data: Any) -> Iterator[Record]:
    """The records that a pointer names, in the import or imported earlier."""
    for target in (data, *({"record": path} for path in companions_of(data))):
        path = target.get("record") if isinstance(target, dict) else None
        here = folder if isinstance(path, str) and (folder / path).is_file() else root
        yield record_behind(here, file, target)


def _merged_plan(file: Path, existing: Path, refuse: Refuse) -> bytes:
    """The runs planned in `file`, and those of the `existing` plan that it lacks and that have a
    pointer: an experiment may come in several parts."""
    planned = {run.name: run for run in read_runs(file)}
    for run in planned.values():
        _check_run(run, refuse)
    known = read_runs(existing) if existing.exists() else []
    others = [
        run for run in known
        if run.name not in planned and (existing.parent / f"{run.name}.json").is_file()
    ]  # fmt: skip
    return b"".join(run.line() for run in [*planned.values(), *others])


def _digest_in(existing: Path) -> Any:
    """The digest of the plan of an existing certificate or probe; None if it cannot be read."""
    try:
        data = read_json(existing)
    except RecordError:
        return None
    return data.get("digest") if isinstance(data, Mapping) else None


def _precedence(pointer: Any) -> tuple[str, int]:
    """The start of a pointer's run and the number of companions that the pointer names: a pointer
    derived from the record alone may lack them."""
    record = pointer.get("record") if isinstance(pointer, Mapping) else None
    return Path(record).stem if isinstance(record, str) else "", len(companions_of(pointer))


def _bytes(content: bytes | Path) -> bytes:
    return content.read_bytes() if isinstance(content, Path) else content


def _refuse(name: str, why: str) -> RecordError:
    return RecordError(f"{why}.", where=name)
