"""The commands that move measurements and weights: between machines, and between layouts."""

from __future__ import annotations

import glob
import hashlib
import json
import shutil
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import rnnworker
from rnnbench.builds.pins import build_of, pins_of
from rnnbench.commands.arguments import (
    EXPERIMENT,
    ONLY_SITES,
    PLANNED,
    RESULTS,
    Arguments,
    command_parser,
    file_to_write,
    folder_to_write,
    parse_experiment,
)
from rnnbench.datasets.pins import pinned
from rnnbench.errors import ConfigError, RecordError, suggestion
from rnnbench.exchange import archive, incoming, outcomes
from rnnbench.grid.files import user_files
from rnnbench.grid.point import digest_of, full_identity
from rnnbench.locks import exclusive
from rnnbench.planning.digests import worker_files
from rnnbench.planning.plan import Plan, facts_of
from rnnbench.records.plan_file import PlannedCertificate
from rnnbench.records.predictions import planned_files
from rnnbench.records.record import Run
from rnnbench.records.store import IMPORTED, is_record, json_bytes, planned_folders, write_bytes
from rnnbench.running.worker import nvml
from rnnworker import machine

SCHEMA = 1
SITE = "bundle"
NVML = "pynvml.py"  # from nvidia-ml-py
RUN = '''"""Measures this bundle's runs: python run.py [--stop-after SECONDS]; see also --help."""

import os
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, FOLDER)

from rnnworker import bundle

sys.exit(bundle.main(FOLDER, sys.argv[1:]))
'''
LARGE_BYTES = 64 * 2**20


def bundle(arguments: Sequence[str]) -> int:
    """Write a folder that measures an experiment on a machine with only Python and a framework."""
    # Imported late: Hydra takes a quarter of a second, which the other commands need not wait for.
    from rnnbench.datasets.provide import provide, read_dataset
    from rnnbench.planning.planner import make_plan

    root = Path.cwd()
    declared: Arguments = {
        "-o --output": {
            "type": folder_to_write,
            "required": True,
            "metavar": "FOLDER",
            "help": "the new or empty folder to write",
        },
    }
    parser = command_parser(bundle, PLANNED | declared)
    options = parse_experiment(parser, arguments, root)

    plan = make_plan(
        options.experiment,
        options.conf,
        root,
        site=SITE,
        overrides=" ".join(options.overrides),
        # Bundles of parts of an experiment become one report when they are imported.
        separate=False,
    )

    if plan.predictions:
        raise ConfigError(
            "has predictions, for which there are no bundles.",
            where=plan.experiment.name,
            remedy=f"install this project there: `rnnbench run {plan.experiment.name}`.",
        )
    for dataset in sorted(set(plan.datasets.values())):
        provide(read_dataset(dataset, root), root)

    pins = pinned(root)
    lines = ""
    for run in plan.runs.values():
        entry = _entry(run, root, pins)
        lines += f"{json.dumps(entry)}\n"
    certificates = {}
    for key, certificate in plan.certificates.items():
        certificates[key] = _entry(certificate, root, pins)
    contents = {
        "plan.jsonl": lines.encode(),
        "experiment.json": json_bytes(facts_of(plan)),
        "certificates.json": json_bytes(certificates),
        "run.py": RUN.encode(),
    }

    size = _write(
        options.output,
        plan,
        contents,
        root,
    )
    runs = f"{len(plan.runs)} runs, {size / 1e6:.1f} MB"
    print(f"{options.output}: {runs}; on the target machine: python run.py")
    if size > LARGE_BYTES:
        limit = f"{LARGE_BYTES / 2**20:.0f} MiB"
        fix = "Fix: bundle fewer models or builds at once."
        print(f"warning: the bundle is larger than {limit}. {fix}")
    return 0


def _folder_of_imports(file: Path) -> Path:
    """The folder from which a user's `file` is imported: above the packages that it is in."""
    folder = file.parent
    while (folder / "__init__.py").exists():
        folder = folder.parent
    return folder


def _write(
    folder: Path,
    plan: Plan,
    contents: Mapping[str, bytes],
    root: Path,
) -> int:
    """Writes a bundle: its `contents` by name, the data sets, the worker and the user's Python
    files.

    - `folder`: the bundle's, which must be new or empty.
    - `root`: the project's folder.

    Returns the number of bytes. Raises `ConfigError` if the folder is not empty.
    """
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError("is not empty.", where=str(folder), remedy="name a new folder.")

    own_files: set[Path] = set()
    for run in plan.runs.values():
        own_files |= user_files(run.config)
    for certificate in plan.certificates.values():
        for implementation in certificate.implementations:
            own_files |= user_files({"rnn": implementation.rnn})

    sources = {path: root / path for path in plan.datasets}
    own = {}
    for file in sorted(own_files):
        path = str(file)  # by which runs name it
        top = _folder_of_imports(file)
        short = hashlib.sha256(str(top).encode()).hexdigest()[:8]
        own[path] = f"own/{short}/{file.relative_to(top).as_posix()}"
        sources[own[path]] = file

    packages = Path(rnnworker.__file__).parents[1]
    for file in worker_files():
        sources[file.relative_to(packages).as_posix()] = file
    library = nvml()
    if library:
        sources[NVML] = Path(library)

    files = dict(contents)
    for name, file in sources.items():
        files[name] = file.read_bytes()
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    about = {
        "schema": SCHEMA,
        "experiment": plan.experiment.name,
        "files": digests,
        "own": own,
    }
    files["bundle.json"] = json_bytes(about)

    try:
        for name, content in files.items():
            write_bytes(folder / name, content)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return sum(map(len, files.values()))


def _entry(
    planned: Run | PlannedCertificate, root: Path, pins: Mapping[str, Any]
) -> dict[str, Any]:
    """A planned run or certificate as the bundle's files hold it. The packages of a build
    without a lock are known only on the target machine.

    `pins`: path → pin of the data.
    """
    identity = dict(planned.identity)
    if pins_of(build_of(planned.config["build"]), root) is None:
        identity["build_lock"] = "read off the machine"
    path = planned.config.get("dataset", {}).get("path")
    return {
        **planned.as_dict(),
        "identity": identity,
        "digest": digest_of(full_identity(planned.config, identity)),
        "pinned_md5": pins[path].md5 if path in pins else None,
    }


def export(arguments: Sequence[str]) -> int:
    """Write an experiment's records to one file for another machine."""
    declared: Arguments = {
        "experiment": EXPERIMENT,
        "-o --output": {
            "type": file_to_write,
            "required": True,
            "metavar": "FILE.zip",
            "help": "the file to write",
        },
        "--site": ONLY_SITES,
        "--results": RESULTS,
    }
    options = command_parser(export, declared).parse_args(arguments)

    experiment = options.experiment
    folders = {}
    for folder in planned_folders(options.results, glob.escape(experiment)):
        folders[folder.parent.name] = folder
    sites = options.site or list(folders)
    if not folders or set(sites) - set(folders):
        what = f"has no runs of {experiment} at {', '.join(sites) or 'any site'}."
        if folders:
            remedy = f"name a site that has some: {', '.join(folders)}."
        else:
            measured = [folder.name for folder in planned_folders(options.results, "*")]
            remedy = f"{suggestion(experiment, measured)}run the experiment first."
        raise ConfigError(what, where=str(options.results), remedy=remedy)

    files: dict[str, Path] = {}
    records = 0
    for site in sites:
        files |= archive.files_of(folders[site])
        records += sum(file.exists() for file in planned_files(folders[site]))
    archive.write(options.output, files)
    records += sum(map(is_record, files.values()))
    print(f"{options.output}: {records} records of {experiment} at {', '.join(sites)}")
    return 0


def import_(arguments: Sequence[str]) -> int:
    """Import the records that another machine exported or that a bundle measured.

    All files are checked before anything is written. They go into results/imported/, and nothing
    that was measured here is changed. With --restore, they count as this machine's own results,
    such as a backup: they go into results/ itself, and the command names each file that it
    replaces.
    """
    declared: Arguments = {
        "sources": {
            "nargs": "+",
            "type": Path,
            "metavar": "FILE|FOLDER",
            "help": "a file that `rnnbench export` wrote, or a bundle's folder after its runs",
        },
        "--restore": {
            "action": "store_true",
            "help": "bring back results of this machine: a backup, or a bundle that ran here",
        },
        "--results": RESULTS,
    }
    options = command_parser(import_, declared).parse_args(arguments)
    with exclusive(options.results, "rnnbench import"):
        _import(options.sources, options.results, options.restore)
    return 0


def _import(sources: Sequence[Path], results: Path, restore: bool) -> None:
    """Checks all `sources` and then writes what is admitted of each.

    `restore`: whether they are results of this machine. Raises `RecordError`.
    """
    root = results
    local: set[str] = set()
    if not restore:
        root = results / IMPORTED
        # This machine, and every site and machine that has results in this project.
        local.add(machine.fingerprint()["machine"])
        for pattern in ("*", "records/*"):
            local |= {folder.name for folder in results.glob(pattern)}

    with tempfile.TemporaryDirectory(prefix=incoming.UNPACKED, dir=results) as unpacked:
        outcome = "nothing was imported"
        if len(sources) > 1:
            for number, source in enumerate(sources):
                folder = Path(unpacked, f"check-{number}")
                _examined(
                    source,
                    folder,
                    root,
                    local,
                    outcome,
                )

        for number, source in enumerate(sources):
            # Examined next to what the sources before it wrote, such as an earlier part of a plan.
            folder = Path(unpacked, str(number))
            admitted = _examined(
                source,
                folder,
                root,
                local,
                outcome,
            )
            admitted.write()
            outcome = "the sources before it were imported"
            text = (
                f"{source}: {admitted.records} records of {admitted.experiment}, "
                f"{len(admitted.files)} files written, {admitted.known} known already"
            )
            if admitted.kept:
                text += f", {admitted.kept} newer files kept"
            print(text)

            if admitted.probes:
                print(f"left out: {admitted.probes} probes, which rnnbench no longer makes")
            if restore:
                for name in admitted.replaced:
                    print(f"replaced: {root / name}")


def _examined(
    source: Path,
    folder: Path,
    root: Path,
    local: Collection[str],
    outcome: str,
) -> incoming.Incoming:
    """What is admitted of a source, whose files are laid out in the new `folder`.

    `root`, `local`: as in `incoming.examine`. Raises `RecordError`, which names the source and says
    the `outcome` for the import.
    """
    if not source.exists():
        raise RecordError("does not exist.", where=str(source))

    folder.mkdir()
    try:
        if source.is_dir():
            outcomes.lay_out(source, folder)
        else:
            archive.unpack(source, folder)
        return incoming.examine(folder, root, local)
    except RecordError as error:
        what = error.what.rstrip(".")
        if error.where not in ("", str(source)):
            where = error.where.replace(f"{folder}/", "")
            what = f"{where}: {what}"
        remedy = "export it again on its machine, with the same version of rnnbench."
        raise RecordError(
            f"{what}; {outcome}.",
            where=str(source),
            remedy=error.remedy or remedy,
        ) from error
