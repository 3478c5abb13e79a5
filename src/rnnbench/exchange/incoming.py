"""Results from another machine: what of them may be written, and where.

They are untrusted data. Each file is read as the tables read it, the files of rounds are made
from the records, and everything is written into the folder of imported results, whose sites and
machines are never those of this project.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from rnnbench.axes import REQUIRED
from rnnbench.errors import RecordError
from rnnbench.exchange.archive import safe_name
from rnnbench.grid.point import digest_of, full_identity
from rnnbench.planning.plan import Prediction
from rnnbench.records import predictions
from rnnbench.records.plan_file import Experiment, read_experiment, read_heads, read_runs
from rnnbench.records.record import Run
from rnnbench.records.rounds import (
    ROUNDS,
    Result,
    as_planned,
    read_results,
    records_at,
    results_in,
    results_of,
    write_results,
)
from rnnbench.records.store import (
    RESERVED,
    as_kind,
    is_record,
    json_bytes,
    read_json,
    read_record,
    write_bytes,
)
from rnnbench.sources.certificates import certificate_of

ATTACHED_SUFFIXES = (".events.jsonl", ".log")  # of a record; exports leave logs out
UNPACKED = ".import-"  # beginning of the names of folders in which imports are unpacked


@dataclass
class Incoming:
    """What is written of an export.

    - `root`: the folder into which it is written.
    - `experiment`: its name.
    - `sites`: those that have a plan.
    - `files`: name → file with its content.
    - `records`: the number of all in the export.
    - `known`: the number of files that exist with the same content.
    - `kept`: the number of files that exist with newer content.
    - `replaced`: the names of existing files that are overwritten.
    - `probes`: the number of files that are left out.
    """

    root: Path
    experiment: str
    sites: Collection[str]
    files: dict[str, Path] = field(default_factory=dict)
    records: int = 0
    known: int = 0
    kept: int = 0
    replaced: list[str] = field(default_factory=list)
    probes: int = 0

    def add(self, name: str, file: Path, keep: bool = False) -> None:
        """Adds a file, unless it exists with this content, and counts what happens to it.

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
        """Writes the files, and the files of the rounds, in which the newest record of a run
        counts.

        Records come first, so that no round ever lacks one. Raises `OSError`.
        """
        names = sorted(self.files, key=lambda name: (not name.startswith("records/"), name))
        for name in names:
            write_bytes(self.root / name, self.files[name].read_bytes())
        for site in sorted(self.sites):
            self._write_rounds(self.root / site / self.experiment)

    def _write_rounds(self, folder: Path) -> None:
        """Writes the files of the rounds whose results have changed. A record that was measured as
        planned counts before a newer one that was not.

        `folder`: the experiment's at a site.
        """
        planned = read_heads(folder / "plan.jsonl")
        digests = {head.name: head.digest for head in planned}
        known, _ = results_in(folder)
        records, _ = records_at(folder, digests)
        results = known | results_of(records) | results_of(as_planned(records, digests))

        rounds: dict[str, dict[str, Result]] = {}
        changed = set()
        for head in planned:
            result = results.get(head.name)
            if result:
                rounds.setdefault(head.round, {})[head.name] = result
            if result != known.get(head.name):
                changed.add(head.round)

        for name, members in rounds.items():
            if name in changed:
                file = folder / ROUNDS / f"{name}.json"
                if file.exists():
                    replaced = file.relative_to(self.root)
                    self.replaced.append(replaced.as_posix())
                write_results(file, members)


def examine(folder: Path, root: Path, local: Collection[str]) -> Incoming:
    """Decides which files of an export are written, and rewrites them without what they should not
    contain.

    No record is ever replaced. A certificate is replaced by one that was planned differently. A
    plan keeps the runs of the existing one, and the facts of an experiment the runs that were
    skipped, because it may come in several parts.

    - `folder`: the export's files, in the layout of a results folder.
    - `root`: the folder into which they will be written.
    - `local`: names that no site and no machine of the export may have, because they belong to
      this project.

    Returns what is to be written. Raises `RecordError` if a file is not what an export contains.
    """
    files = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            files[path.relative_to(folder).as_posix()] = path

    sites = set()  # that have a plan
    experiments = set()  # that are planned
    for name in files:
        if name.endswith("/plan.jsonl"):
            site, experiment, *_ = name.split("/")
            sites.add(site)
            experiments.add(experiment)
    if len(experiments) != 1:
        raise RecordError(
            "is not an export: it does not have the plan of one experiment.",
            remedy="name a file of `rnnbench export`, or a bundle's folder after its runs.",
        )

    incoming = Incoming(root, experiments.pop(), sites)
    for name, file in files.items():
        # SITE/EXPERIMENT/… or records/MACHINE/…
        top, _, below = name.partition("/")
        second = below.partition("/")[0]
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
            _add_record_file(incoming, name, file)
        elif top in RESERVED or second != incoming.experiment:
            raise _refuse(name, f"does not belong to a run of {incoming.experiment}")
        else:
            _add_site_file(incoming, name, file, local)
    return incoming


def _add_record_file(incoming: Incoming, name: str, file: Path) -> None:
    """Adds a record, its events or its log.

    `name`, `file`: as in `Incoming.add`.

    Raises `RecordError` if the file does not belong to the experiment, or exists with other
    content.
    """
    if is_record(file):
        record = read_record(file)
        if record.path != name:
            raise _refuse(name, f"holds the record {record.key}")
        if record.site not in incoming.sites or record.experiment != incoming.experiment:
            raise _refuse(name, f"belongs to no plan ({record.experiment!r} at {record.site!r})")
        _check_run(record.run, name)
        incoming.records += 1
    else:
        stem = file.name.partition(".")[0]
        of_record = file.with_name(f"{stem}.json")
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
    """Adds a file of the experiment at a site: a certificate, the plan, the facts, a round that was
    not needed, or the plan or results of predictions.

    - `name`, `file`: as in `Incoming.add`. The file is rewritten.
    - `local`: as in `examine`.

    Raises `RecordError` for any other file.
    """
    existing = incoming.root / name
    site, _, *what = name.split("/")
    is_json = file.suffix == ".json"
    results: Mapping[str, Result] = {}  # of a round that was not needed

    match what:
        case ["probes", _] if is_json:  # peak rates that earlier versions measured
            incoming.probes += 1
        case ["certificates", _] if is_json:
            made = certificate_of(read_json(file), name)
            if made.key != file.stem or made.machine in local:
                raise _refuse(name, f"says that it is {made.key!r}, made on {made.machine!r}")
            known = None
            with suppress(RecordError):
                known = certificate_of(read_json(existing), name).digest
            is_same = known is not None and known == made.digest
            incoming.add(name, file, keep=is_same)
        case ["plan.jsonl"]:
            file.write_bytes(_merged_plan(file, existing, name))
            incoming.add(name, file)
        case ["experiment.json"]:
            facts = read_experiment(file)
            if facts.name != incoming.experiment:
                raise _refuse(name, f"describes the experiment {facts.name!r}")
            file.write_bytes(json_bytes(_merged_facts(facts, file, existing)))
            incoming.add(name, file)
        case [predictions.PLAN]:
            file.write_bytes(json_bytes(_merged_predictions(file, existing, name)))
            incoming.add(name, file)
        case ["predictions", _] if is_json:
            found = predictions.read_results(file)
            if found.name != file.stem or found.machine in local:
                raise _refuse(name, f"says that it is {found.name!r}, made on {found.machine!r}")
            is_newer = False
            with suppress(RecordError):
                is_newer = predictions.read_results(existing).started > found.started
            incoming.add(name, file, keep=is_newer)
            incoming.records += 1
        case [folder, _] if folder == ROUNDS and is_json:
            results = read_results(file)
        case [_] if is_json:  # of one run, in an export of an earlier version
            result = as_kind(
                read_json(file),
                Result,
                "is not a file of an export",
                name,
                "export it again.",
            )
            results = {file.stem: result}
            name = f"{site}/{incoming.experiment}/{ROUNDS}/{file.name}"
        case _:
            raise _refuse(name, "is not a file of an export")

    if any(result.record for result in results.values()):
        raise _refuse(name, "names a record; only rounds that were not needed are exported")
    if results:
        write_results(file, results)
        incoming.add(name, file, keep=True)


def _check_run(run: Run, name: str) -> None:
    """Raises `RecordError` unless a run and its round have safe names, and it has the required axes
    and the digest of its own configuration.

    `name`: of the file that has it.
    """
    for what in (run.name, run.round):
        if "/" in what or not safe_name(what):
            raise _refuse(name, f"has a run whose name is not safe, {what[:80]!r}")

    lacking = [axis for axis in REQUIRED if not run.choices.get(axis)]
    if lacking:
        axes = ", ".join(lacking)
        raise _refuse(name, f"has a run without {axes}")

    identity = full_identity(run.config, run.identity)
    if run.digest != digest_of(identity):
        raise _refuse(name, f"has a digest that is not that of the configuration of {run.name}")


def _merged_plan(file: Path, existing: Path, name: str) -> bytes:
    """The lines of a plan with the runs of two: an experiment may come in several parts.

    - `file`: the new plan, whose runs are checked.
    - `existing`: the plan from which it gets the runs that it lacks, measured or not.
    - `name`: of the new plan, for errors.
    """
    planned = {}
    for run in read_runs(file):
        _check_run(run, name)
        planned[run.name] = run

    if existing.exists():
        for run in read_runs(existing):
            planned.setdefault(run.name, run)

    return b"".join(run.line() for run in planned.values())


def _merged_predictions(file: Path, existing: Path, name: str) -> dict[str, Prediction]:
    """The predictions of two plans by name, as `_merged_plan`."""
    planned: dict[str, Prediction] = {}
    for path in (existing, file):
        if path.exists():
            what = "has no planned predictions"
            planned |= as_kind(
                read_json(path), dict[str, Prediction], what, name, "export it again."
            )
    for each in planned.values():
        if digest_of(each.identity) != each.digest:
            raise _refuse(
                name, f"has a digest that is not that of the configuration of {each.name}"
            )
    return planned


def _merged_facts(facts: Experiment, file: Path, existing: Path) -> Experiment:
    """The facts of an experiment, with the runs that were skipped according to these or to the
    existing ones, unless they are planned now or have a result.

    - `facts`: those in `file`, which is next to the plan.
    - `existing`: the file of the existing facts.
    """
    skipped = {each.name: each for each in facts.skipped}

    plan = file.with_name("plan.jsonl")
    if existing.exists() and plan.exists():
        planned = {run.name for run in read_runs(plan)}
        measured, _ = results_in(existing.parent)
        for each in read_experiment(existing).skipped:
            skipped.setdefault(each.name, each)
        for name in planned | measured.keys():
            skipped.pop(name, None)

    return msgspec.structs.replace(facts, skipped=tuple(skipped.values()))


def _refuse(name: str, why: str) -> RecordError:
    """The error for a file of an export.

    - `name`: of the file.
    - `why`: what is wrong with it.
    """
    return RecordError(f"{why}.", where=name)
