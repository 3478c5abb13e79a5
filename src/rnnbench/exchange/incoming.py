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
from rnnbench.records.pointer import Pointer, companion_files, is_pointer, names_later
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
    """What is written of an export.

    - `root`: the folder into which it is written.
    - `experiment`: its name.
    - `files`: name → file with its content.
    - `records`: those whose pointers are written.
    - `known`: the number of files that exist with the same content.
    - `kept`: the number of files that exist with newer content.
    - `replaced`: the names of existing files that are overwritten.
    - `probes`: the number of files that are left out.
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
        """Adds a file, unless it exists with this content.

        - `name`: relative to `root`.
        - `file`: with its content.
        - `keep`: whether an existing one with other content is kept.
        """
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
        """Writes the files and pointers.

        Records come first, so that no pointer ever lacks its record. A pointer to a newer record is
        kept, and companions have no pointer. Raises `OSError`.
        """
        records = sorted(name for name in self.files if name.startswith("records/"))
        others = sorted(self.files.keys() - records)
        for name in [*records, *others]:
            write_bytes(self.root / name, self.files[name].read_bytes())

        for record in sorted(self.records, key=lambda record: record.started):
            name = f"{record.site}/{self.experiment}/{record.name}.json"
            file = self.root / name
            pointer = Pointer.of(record, companion_files(self.root, record))
            is_kept = names_later(file, record)
            with suppress(RecordError):
                is_kept = is_kept or Pointer.read(file) == pointer
            if record.is_companion or is_kept:
                continue
            if file.exists() and name not in self.files:
                self.replaced.append(name)
            write_json(file, pointer)


def examine(folder: Path, root: Path, local: Collection[str]) -> Incoming:
    """Decides which files of an export are written, and rewrites them without what they should not
    contain.

    No record is ever replaced. A pointer is replaced by one to a newer record, a certificate by one
    that was planned differently. A plan keeps the runs of the existing one, and the facts of an
    experiment the runs that were skipped, because it may come in several parts.

    - `folder`: the export's files, in the layout of a results folder.
    - `root`: the folder into which they will be written.
    - `local`: names that no site and no machine may have, because they are this project's own.

    Raises `RecordError` if a file is not what an export contains.
    """
    files = {}
    sites = set()  # that have a plan
    experiments = set()  # that are planned
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            name = path.relative_to(folder).as_posix()
            files[name] = path
            if name.endswith("/plan.jsonl"):
                site, experiment, *_ = name.split("/")
                sites.add(site)
                experiments.add(experiment)
    if len(experiments) != 1:
        raise RecordError(
            "is no export: it does not have the plan of one experiment.",
            remedy="name a file of `rnnbench export`, or a bundle's folder after its runs.",
        )

    incoming = Incoming(root, experiments.pop())
    for name, file in files.items():
        # SITE/EXPERIMENT/… or records/MACHINE/…
        top, _, below = name.partition("/")
        second = below.partition("/")[0]
        owner = second if top == "records" else top
        if owner in local:
            raise RecordError(
                f"holds results of {owner}, which is a machine or site of this project.",
                where=name,
                remedy=(
                    "export the other sites only (--site); a backup of your own is brought back "
                    "with --restore."
                ),
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


def _add_record_file(
    incoming: Incoming,
    name: str,
    file: Path,
    sites: Collection[str],
) -> None:
    """Adds a record, its events or its log.

    - `name`, `file`: as in `Incoming.add`.
    - `sites`: those that have a plan.

    Raises `RecordError` if the file does not belong to the experiment, or exists with other
    content.
    """
    if is_record(file):
        record = read_record(file)
        if record.path != name:
            raise _refuse(name, f"holds the record {record.key}")
        if record.experiment != incoming.experiment or record.site not in sites:
            raise _refuse(name, f"belongs to no plan ({record.experiment!r} at {record.site!r})")
        _check_run(record.run, name)
        incoming.records.append(record)
    else:
        of_record = file.with_name(f"{file.name.partition('.')[0]}.json")
        if not file.name.endswith(ATTACHED_SUFFIXES) or not of_record.is_file():
            raise _refuse(name, "is not a file of an export")

    existing = incoming.root / name
    if existing.exists() and existing.read_bytes() != file.read_bytes():
        raise _refuse(name, "exists already with other content")
    incoming.add(name, file)


def _add_site_file(
    incoming: Incoming,
    name: str,
    file: Path,
    local: Collection[str],
) -> None:
    """Adds a file of the experiment at a site: a certificate, the plan, the facts or the pointer of
    a run that was not needed.

    - `name`, `file`: as in `Incoming.add`. The file is rewritten.
    - `local`: as in `examine`.

    Raises `RecordError` for any other file.
    """
    existing = incoming.root / name
    what = name.split("/")[2:]  # below the folders of the site and the experiment

    if len(what) == 2 and file.suffix == ".json":
        if what[0] == PROBES:
            incoming.probes += 1
            return
        if what[0] == "certificates":
            made = certificate_of(read_json(file), name)
            if made.key != file.stem or made.machine in local:
                raise _refuse(name, f"says that it is {made.key!r}, made on {made.machine!r}")
            known = None
            with suppress(RecordError):
                known = certificate_of(read_json(existing), name).digest
            incoming.add(name, file, keep=known is not None and known == made.digest)
            return

    pointer = None  # of a run that was not needed
    if len(what) == 1 and is_pointer(file):
        pointer = Pointer.read(file)
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
    """Raises `RecordError` unless a run has a safe name, the required axes and the digest of its
    own configuration.

    `name`: of the file that has it.
    """
    if "/" in run.name or not safe_name(run.name):
        raise _refuse(name, f"has a run whose name is not safe, {run.name[:80]!r}")

    lacking = [axis for axis in REQUIRED if not run.choices.get(axis)]
    if lacking:
        raise _refuse(name, f"has a run without {', '.join(lacking)}")

    if run.digest != digest_of(full_identity(run.config, run.identity)):
        raise _refuse(name, f"has a digest that is not that of the configuration of {run.name}")


def _merged_plan(file: Path, existing: Path, name: str) -> bytes:
    """The lines of a plan with the runs of two: an experiment may come in several parts.

    - `file`: the new plan, whose runs are checked.
    - `existing`: the plan from which it gets the runs that it lacks, measured or not.
    - `name`: of the new plan, for errors.
    """
    planned = {run.name: run for run in read_runs(file)}
    for run in planned.values():
        _check_run(run, name)

    if existing.exists():
        for run in read_runs(existing):
            planned.setdefault(run.name, run)

    return b"".join(run.line() for run in planned.values())


def _merged_facts(facts: Experiment, file: Path, existing: Path) -> Experiment:
    """The facts of an experiment, with the runs that were skipped according to the existing ones,
    unless they are planned now or have a result.

    - `facts`: those in `file`, which is next to the plan.
    - `existing`: the file of the existing facts.
    """
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
    """The error for the file with this `name`."""
    return RecordError(f"{why}.", where=name)
