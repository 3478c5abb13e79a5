"""The file of a finished round: which record represents each of its runs, or why the run needs
none. See ``docs/formats.md``, "Round"."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePath

import msgspec

from rnnbench.errors import RecordError
from rnnbench.records.bounds import Seconds
from rnnbench.records.plan_file import Repeats, read_heads
from rnnbench.records.record import Record, Run
from rnnbench.records.store import (
    as_kind,
    read_json,
    read_record,
    readable,
    record_files,
    write_json,
)

ROUNDS = "rounds"  # the folder of these files in the folder of an experiment


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


class Result(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of a run in the file of its round. Paths of records are relative to the results
    folder.

    - `companions`: records of the runs that were measured again only to be compared with it.
    - `record`: the record of the run; None if the run was not needed.
    - `digest`: of the run that was planned.
    - `verdict`, `wall_seconds`: as in the record.
    - `not_needed`: why there is no record.
    - `repeats`: the rule that decided this, which is only compared: of other versions, too.
    """

    companions: tuple[str, ...] = ()
    record: str | None
    digest: str = ""
    verdict: str | None = None
    wall_seconds: Seconds | None = None
    not_needed: NotNeeded | None = None
    repeats: Mapping[str, object] | None = None

    def __post_init__(self) -> None:
        if self.record is None and self.not_needed is None:
            raise ValueError("it names no record, and no reason why none is needed")

    @classmethod
    def of(cls, record: Record, companions: Sequence[str] = ()) -> Result:
        return cls(
            companions=tuple(companions),
            record=record.path,
            digest=record.run.digest,
            verdict=record.verdict.status,
            wall_seconds=record.measured.wall_seconds,
        )

    @property
    def started(self) -> str:
        """When its record started; empty if it has none."""
        return PurePath(self.record or "").stem

    @property
    def paths(self) -> tuple[str, ...]:
        """The records that it names, those of companions last."""
        if self.record is None:
            return ()
        return (self.record, *self.companions)

    def is_valid(self, root: Path, rule: Repeats | None) -> bool:
        """Whether its records can be read, or its run is not needed by the current rule.

        - `root`: the results folder.
        - `rule`: the experiment's ``repeats``, or None.
        """
        if self.record is None:
            return bool(self.repeats == msgspec.to_builtins(rule))
        _, faults = read_records([self], root)
        return not faults


class _Round(msgspec.Struct, frozen=True):
    """The content of the file. `members`: run → result."""

    members: Mapping[str, Result]


def read_results(file: Path) -> Mapping[str, Result]:
    """Run → result. Raises a `RecordError` that names the `file`."""
    remedy = "run the same snakemake command again, which makes it again."
    return as_kind(read_json(file), _Round, "is not the file of a round", file, remedy).members


def write_results(file: Path, results: Mapping[str, Result]) -> None:
    write_json(file, _Round(results))


def round_file(folder: Path, name: str) -> Path:
    """The file of the round `name` of an experiment at a site."""
    return folder / ROUNDS / f"{name}.json"


def round_files(folder: Path) -> list[Path]:
    """The files of the finished rounds of an experiment at a site."""
    return sorted(folder.glob(f"{ROUNDS}/[!.]*.json"))


def results_in(folder: Path) -> tuple[dict[str, Result], list[RecordError]]:
    """Run → result in the finished rounds of an experiment at a site, and the errors of the files
    that cannot be read.

    A run that is in several rounds, since its experiment was planned differently, has a result as
    it is planned now, if there is one; of several, the one that started last.
    """
    files = round_files(folder)
    rounds, faults = readable(files, read_results)
    if not files and any(folder.glob("[!.]*-s*-r*.json")):
        fault = "has the results of an earlier version, which had a file for each run."
        remedy = "import its archive again, or run the same snakemake command again."
        faults.append(RecordError(fault, where=str(folder), remedy=remedy))
    digests = planned_digests(folder)

    def rank(member: tuple[str, Result]) -> tuple[bool, str]:
        name, result = member
        return result.digest == digests.get(name), result.started

    found: list[tuple[str, Result]] = []
    for members in rounds:
        found += members.items()
    return dict(sorted(found, key=rank)), faults


def planned_digests(folder: Path) -> dict[str, str]:
    """Run → digest, in the plan of an experiment at a site; empty if it has no readable plan."""
    with suppress(RecordError):
        return {head.name: head.digest for head in read_heads(folder / "plan.jsonl")}
    return {}


def read_records(
    results: Iterable[Result], root: Path
) -> tuple[dict[str, Record], list[RecordError]]:
    """Key → record, for the readable records that results name, including those of companions; and
    the errors of the others, which cannot be read or are not in the results folder.

    - `results`: of runs.
    - `root`: the results folder.
    """

    def read(file: Path) -> Record:
        if not file.resolve().is_relative_to(root.resolve()):
            raise RecordError("is outside the results folder.", where=str(file))
        return read_record(file)

    files: list[Path] = []
    for result in results:
        files += [root / path for path in result.paths]
    records, faults = readable(files, read)
    return {record.key: record for record in records}, faults


def records_of(folders: Iterable[Path]) -> tuple[list[Record], list[RecordError]]:
    """All readable records of experiments at sites, as `results_at` finds them, and the errors of
    what cannot be read."""
    records: dict[str, Record] = {}
    faults: list[RecordError] = []
    for folder in folders:
        results, damaged = results_at(folder)
        in_order = [results[name] for name in sorted(results)]
        found, unreadable = read_records(in_order, folder.parents[1])
        records |= found
        faults += [*damaged, *unreadable]
    return list(records.values()), faults


def records_at(folder: Path, runs: Iterable[str]) -> tuple[list[Record], list[RecordError]]:
    """All records of an experiment's runs at a site, from the first to the last start, and the
    errors of records of these runs that cannot be read, whatever their experiment and site.

    - `folder`: the experiment's at the site.
    - `runs`: names.
    """
    files: list[Path] = []
    for run in runs:
        files += record_files(folder.parents[1], name=glob.escape(run))
    found, faults = readable(files, read_record)
    place = (folder.parent.name, folder.name)
    records = [record for record in found if (record.site, record.experiment) == place]
    return sorted(records, key=lambda record: record.started), faults


def as_planned(records: Sequence[Record], digests: Mapping[str, str]) -> list[Record]:
    """The records that were measured as planned, and the companions of their rounds.

    - `records`: as from `records_at`.
    - `digests`: run → digest in the plan, for the runs of all `records`.
    """
    own = []
    for record in records:
        if not record.is_companion and record.run.digest == digests[record.name]:
            own.append(record)
    rounds = {record.round_id for record in own}
    return own + [each for each in records if each.is_companion and each.round_id in rounds]


def results_of(records: Iterable[Record]) -> dict[str, Result]:
    """Run → result: its last record with the companions of this record's round.

    `records`: in the order of their start, as from `as_planned`.
    """
    companions: dict[str, list[str]] = {}
    last = {}
    for record in records:
        if record.is_companion:
            companions.setdefault(record.round_id, []).append(record.path)
        else:
            last[record.name] = record

    results = {}
    for name, record in last.items():
        results[name] = Result.of(record, companions.get(record.round_id, ()))
    return results


def results_at(folder: Path) -> tuple[dict[str, Result], list[RecordError]]:
    """The `results_in` finished rounds, and the results of the other planned runs that have
    records: a round with a run that was killed has no file. With the errors of what cannot be
    read."""
    results, faults = results_in(folder)
    digests = planned_digests(folder)
    others = [name for name in digests if name not in results]
    records, unreadable = records_at(folder, others)
    results |= results_of(as_planned(records, digests))
    return results, faults + unreadable


def unfinished(
    runs: Iterable[Run],
    results: Mapping[str, Result],
    root: Path,
    rule: Repeats | None,
) -> list[Run]:
    """The planned runs without a valid result as they are planned.

    - `runs`: of the plan.
    - `results`: run → result.
    - `root`, `rule`: as in `Result.is_valid`.
    """
    left = []
    for run in runs:
        result = results.get(run.name)
        if result is None or result.digest != run.digest or not result.is_valid(root, rule):
            left.append(run)
    return left
