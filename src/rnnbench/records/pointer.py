"""The pointer of a run: the file that says which record represents it at a site, or why it needs
none. See ``docs/formats.md``, "Pointer"."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Any

import msgspec

from rnnbench.errors import RecordError
from rnnbench.records.bounds import Seconds
from rnnbench.records.record import Record
from rnnbench.records.store import as_kind, read_json, read_record, record_files

_NAME = re.compile(r"-s\d+-r\d+\.json$")


class NotNeeded(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a run was not needed: the `halfwidth` of the interval of its configuration, relative to
    the estimate, is at most `until` after so many `runs`; or the runs have `spent` so many seconds
    of the `budget`."""

    halfwidth: float | None = None
    until: float | None = None
    runs: int = 0
    spent: Seconds | None = None
    budget: Seconds | None = None

    def __post_init__(self) -> None:
        by_width = self.halfwidth is not None and self.until is not None
        if by_width == self.is_over_budget:
            raise ValueError("it needs either halfwidth and until, or spent and budget")

    @property
    def is_over_budget(self) -> bool:
        return self.spent is not None and self.budget is not None


class Pointer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The content of a pointer file. Paths of records are relative to the results folder.

    - `companions`: records of the runs that were measured again only to be compared with it.
    - `record`: the record of the run; None if the run was not needed.
    - `digest`: of the run that was planned.
    - `verdict`, `wall_seconds`: as in the record.
    - `not_needed`: why there is no record.
    - `repeats`: the rule that decided this.
    """

    companions: tuple[str, ...] = ()
    record: str | None
    digest: str = ""
    verdict: str | None = None
    wall_seconds: Seconds | None = None
    not_needed: NotNeeded | None = None
    repeats: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.record is None and self.not_needed is None:
            raise ValueError("it names no record, and no reason why none is needed")

    @classmethod
    def of(cls, record: Record, companions: Sequence[str] = ()) -> Pointer:
        return cls(
            companions=tuple(companions),
            record=record.path,
            digest=record.run.digest,
            verdict=record.verdict.status,
            wall_seconds=record.measured.get("wall_seconds"),
        )

    @classmethod
    def read(cls, file: Path) -> Pointer:
        """The pointer in `file`. Raises a `RecordError` that names it."""
        return _pointer(read_json(file), file)

    @property
    def paths(self) -> tuple[str, ...]:
        """The records that it names, those of companions last."""
        return () if self.record is None else (self.record, *self.companions)

    def records(self, results: Path, file: Path) -> Iterator[tuple[Path, Record]]:
        """File and record, for each of its `paths`. Raises a `RecordError` for a record that cannot
        be read, or if the pointer in `file` names one outside the folder `results`."""
        for path in self.paths:
            target = results / path
            if not target.resolve().is_relative_to(results.resolve()):
                raise RecordError(f"points outside the results folder: {target}.", where=str(file))
            yield target.resolve(), read_record(target)


def read_pointers(file: Path) -> list[Pointer]:
    """The pointers of a round's runs, or the only one if `file` is a pointer."""
    data = read_json(file)
    members = data.get("members") if isinstance(data, dict) else None
    every = members.values() if isinstance(members, dict) else [data]
    return [_pointer(each, file) for each in every]


def _pointer(data: Any, file: Path) -> Pointer:
    remedy = "remove the file and run the same snakemake command again, which makes it."
    return as_kind(data, Pointer, "is not a pointer to a record", file, remedy)


def pointer_files(folders: Iterable[Path]) -> list[Path]:
    """The pointer files in the `folders` of experiments at sites, sorted by path."""
    files = (file for folder in folders for file in folder.glob("[!.]*.json"))
    return sorted(filter(is_pointer, files))


def is_pointer(file: PurePath) -> bool:
    """Whether a file in an experiment's folder is named like a pointer, after its run."""
    return _NAME.search(file.name) is not None


def names_later(file: Path, record: Record) -> bool:
    """Whether the pointer in `file` names a record that started later than `record`."""
    with suppress(RecordError):
        return PurePath(Pointer.read(file).record or "").stem > record.started
    return False


def companion_files(results: Path, record: Record) -> list[str]:
    """The companions' records in the round of a `record` (paths relative to `results`)."""
    companions = []
    for name in record.round.members:
        for path in record_files(results, record.machine, glob.escape(name)):
            with suppress(RecordError):
                other = read_record(path)
                if other.is_companion and other.round_id == record.round_id:
                    companions.append(other.path)
    return companions


def is_valid(
    file: Path, results: Path, rule: Mapping[str, Any] | None = None, digest: str | None = None
) -> bool:
    """Whether the records of the pointer in `file` can be read, or its run is not needed by the
    current `rule`; and whether it is of the run with this `digest`, if one is given."""
    try:
        pointer = Pointer.read(file)
        for _ in pointer.records(results, file):
            pass
    except RecordError:
        return False
    is_current = pointer.record is not None or pointer.repeats == rule
    return is_current and digest in (None, pointer.digest)


def records_of(files: Iterable[Path]) -> tuple[list[Record], list[RecordError]]:
    """All readable records that the pointers in `files` name, those of companions included, and the
    errors of the unreadable ones. Runs that were not needed have no record."""
    records: dict[str, Record] = {}
    faults: list[RecordError] = []
    for file in files:
        try:
            for _, record in Pointer.read(file).records(file.parents[2], file):
                records[record.key] = record
        except RecordError as error:
            faults.append(error)
    return list(records.values()), faults
