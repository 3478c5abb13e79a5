"""Results from another machine: what of them may be written, and where.

They are untrusted data. Each file is read as the tables read it, pointers are made from the
records, and everything is written into the folder of imported results, whose sites and machines are
never those of this project.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from rnnbench.axes import REQUIRED
from rnnbench.errors import RecordError
from rnnbench.exchange.archive import safe_name
from rnnbench.grid.point import digest_of, full_identity
from rnnbench.records.plan_file import Experiment, read_experiment, read_runs
from rnnbench.records.pointer import Pointer, companion_files, is_pointer
from rnnbench.records.record import Record, Run
from rnnbench.records.store import (
    RESERVED,
    is_record,
    json_bytes,
    read_json,
    read_record,
    write_bytes,
    write_json,
)
from rnnbench.sources.certificates import certificate_of

ATTACHED_SUFFIXES = (".events.jsonl", ".log")  # of a record; exports leave logs out
PROBES = "probes"  # folder of peak rates that earlier versions measured
UNPACKED = ".import-"  # beginning of the names of folders in which imports are unpacked


@dataclass
class Incoming:
    """What is written into the folder `root`: `files` (name → file with its content) and the
    pointers of the `records`. `known` files exist with the same content, `kept` ones with newer
    content; `replaced` are the names of existing files that are overwritten; `probes` are left out.
    """

    root: Path
    experiment: str
    files: dict[str, Path] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)
    known: int = 0
    kept: int = 0
    replaced: list[str] = field(default_factory=list)
    probes: int = 0

    def add(self, name: str, file: Path, keep: bool = False) -> None:
        """Adds a file, unless it exists with this content, or is to be kept if it exists."""
        existing = self.root / name
        if not existing.exists():
            self.files[name] = file
        elif existing.read_bytes() == file.read_bytes():
            self.known += 1
        elif keep:
            self.kept += 1
        else:
            self.files[name] = file
            self.replaced.append(name)

    def write(self) -> None:
        """Writes the records first, so that no pointer ever lacks its record."""
        for name in sorted(self.files, key=lambda name: (not name.startswith("records/"), name)):
            write_bytes(self.root / name, self.files[name].read_bytes())
        for record in sorted(self.records, key=lambda record: record.started):
            name = f"{record.site}/{self.experiment}/{record.name}.json"
            pointer = Pointer.of(record, companion_files(self.root, record))
            newer = False
            with suppress(RecordError):
                existing = Pointer.read(self.root / name)
                newer = existing == pointer or Path(existing.record or "").stem > record.started
            if record.is_companion or newer:
                continue
            if (self.root / name).exists() and name not in self.files:
                self.replaced.append(name)
            write_json(self.root / name, pointer)


def examine(folder: Path, root: Path, local: Collection[str]) -> Incoming:
    """Decides what of the files in `folder`, which has the layout of a results folder, is written
    into `root`. Raises `RecordError` if any of them is not what an export contains. Files in
    `folder` are rewritten without what they should not contain.

    No record is ever replaced. A pointer is replaced by one to a newer record, a certificate by one
    that was planned differently. A plan keeps the runs of the existing one, and the facts of an
    experiment the runs that were skipped, because it may come in several parts.

    `local`: names that no site and no machine may have, because they are this project's own.
    """
    paths = filter(Path.is_file, sorted(folder.rglob("*")))
    files = {path.relative_to(folder).as_posix(): path for path in paths}
    plans = {tuple(name.split("/")[:2]) for name in files if name.endswith("/plan.jsonl")}
    experiments = {experiment for _, experiment in plans}
    if len(experiments) != 1:
        raise RecordError(
            "is no export: it does not have the plan of one experiment.",
            remedy="name a file of `rnnbench export`, or a bundle's folder after its runs.",
        )
    incoming = Incoming(root, experiments.pop())
    sites = {site for site, _ in plans}
    for name, file in files.items():
        top, second, *_ = [*name.split("/"), ""]
        owner = second if top == "records" else top
        if owner in local:
            raise RecordError(
                f"holds results of {owner}, which is a machine or site of this project.",
                where=name,
                remedy="export the other sites only (--site); a backup of your own is brought back "
                "with --restore.",
            )
        if not safe_name(name):
            raise _refuse(name, "is not a file of an export")
        if top == "records":
            _add_record_file(incoming, name, file, sites)
        elif top in RESERVED or second != incoming.experiment:
            raise _refuse(name, f"does not belong to a run of {incoming.experiment}")
        else:
            _add_site_file(incoming, name, file, local)
    return incoming


def _add_record_file(incoming: Incoming, name: str, file: Path, sites: Collection[str]) -> None:
    """Adds a record, its events or its log."""
    if is_record(file):
        record = read_record(file)
        if record.path != name:
            raise _refuse(name, f"holds the record {record.key}")
        if record.experiment != incoming.experiment or record.site not in sites:
            raise _refuse(name, f"belongs to no plan ({record.experiment!r} at {record.site!r})")
        _check_run(record.run, name)
        incoming.records.append(record)
    elif not (
        file.name.endswith(ATTACHED_SUFFIXES)
        and file.with_name(f"{file.name.partition('.')[0]}.json").is_file()
    ):
        raise _refuse(name, "is not a file of an export")
    existing = incoming.root / name
    if existing.exists() and existing.read_bytes() != file.read_bytes():
        raise _refuse(name, "exists already with other content")
    incoming.add(name, file)


def _add_site_file(incoming: Incoming, name: str, file: Path, local: Collection[str]) -> None:
    """Adds a file of the experiment at a site."""
    what, existing = name.split("/")[2:], incoming.root / name
    if len(what) == 2 and what[0] == PROBES and file.suffix == ".json":
        incoming.probes += 1
        return
    if len(what) == 2 and what[0] == "certificates" and file.suffix == ".json":
        made, known = certificate_of(read_json(file), name), None
        if made.key != file.stem or made.machine in local:
            raise _refuse(name, f"says that it is {made.key!r}, made on {made.machine!r}")
        with suppress(RecordError):
            known = certificate_of(read_json(existing), name).digest
        incoming.add(name, file, keep=known is not None and known == made.digest)
        return
    pointer = Pointer.read(file) if len(what) == 1 and is_pointer(file) else None
    if what == ["plan.jsonl"]:
        content = _merged_plan(file, existing, name)
    elif what == ["experiment.json"]:
        facts = read_experiment(file)
        if facts.name != incoming.experiment:
            raise _refuse(name, f"describes the experiment {facts.name!r}")
        content = json_bytes(_merged_facts(facts, file, existing))
    elif pointer and pointer.record is None:
        content = json_bytes(pointer)
    else:
        raise _refuse(name, "is not a file of an export")
    file.write_bytes(content)
    incoming.add(name, file, keep=pointer is not None)


def _check_run(run: Run, name: str) -> None:
    """Raises unless a run has a safe name, the required axes and the digest of its own
    configuration."""
    if "/" in run.name or not safe_name(run.name):
        raise _refuse(name, f"has a run whose name is not safe, {run.name[:80]!r}")
    if lacking := [axis for axis in REQUIRED if not run.choices.get(axis)]:
        raise _refuse(name, f"has a run without {', '.join(lacking)}")
    if run.digest != digest_of(full_identity(run.config, run.identity)):
        raise _refuse(name, f"has a digest that is not that of the configuration of {run.name}")


def _merged_plan(file: Path, existing: Path, name: str) -> bytes:
    """The runs planned in `file`, and those of the `existing` plan that it lacks, measured or not:
    an experiment may come in several parts."""
    planned = {run.name: run for run in read_runs(file)}
    for run in planned.values():
        _check_run(run, name)
    known = read_runs(existing) if existing.exists() else []
    for run in known:
        planned.setdefault(run.name, run)
    return b"".join(run.line() for run in planned.values())


def _merged_facts(facts: Experiment, file: Path, existing: Path) -> Experiment:
    """The facts in `file`, with the runs that were skipped according to the `existing` ones, unless
    they are planned now or have a result."""
    skipped = {each.name: each for each in facts.skipped}
    plan = file.with_name("plan.jsonl")
    if existing.exists() and plan.exists():
        planned = {run.name for run in read_runs(plan)}
        for each in read_experiment(existing).skipped:
            is_measured = (existing.parent / f"{each.name}.json").is_file()
            if each.name not in planned and not is_measured:
                skipped.setdefault(each.name, each)
    return msgspec.structs.replace(facts, skipped=tuple(skipped.values()))


def _refuse(name: str, why: str) -> RecordError:
    return RecordError(f"{why}.", where=name)
