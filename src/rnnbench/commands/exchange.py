"""The commands that move measurements and weights: between machines, and between layouts."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import rnnworker
from rnnbench.builds.pins import pins_of
from rnnbench.commands.arguments import (
    add_experiment,
    add_output,
    add_results,
    command_parser,
    experiment_parser,
    parse_experiment,
)
from rnnbench.datasets.pins import pinned
from rnnbench.errors import ConfigError, RecordError, suggestion
from rnnbench.exchange import archive, incoming, outcomes
from rnnbench.grid.files import user_files
from rnnbench.grid.point import digest_of, full_identity
from rnnbench.locks import exclusive
from rnnbench.planning.plan import Certificate, Plan, facts_of
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
    parser = experiment_parser(bundle)
    add_output(parser, "FOLDER", "new or empty folder")
    options = parse_experiment(parser, arguments, root)
    overrides = " ".join(options.overrides)
    # Not separate: bundles of parts of an experiment become one report when they are imported.
    name = options.experiment
    conf = options.conf
    plan = make_plan(name, conf, root, site=SITE, overrides=overrides, separate=False)
    for dataset in sorted(set(plan.datasets.values())):
        provide(read_dataset(dataset, root), root)
    pins = pinned(root)
    lines = ""
    for run in plan.runs.values():
        lines += json.dumps(_entry(run, root, pins)) + "\n"
    certificates = {key: _entry(item, root, pins) for key, item in plan.certificates.items()}
    contents = {
        "plan.jsonl": lines.encode(),
        "experiment.json": json_bytes(facts_of(plan)),
        "certificates.json": json_bytes(certificates),
        "run.py": RUN.encode(),
    }
    size = _write(options.output, plan, contents, {path: root / path for path in plan.datasets})
    print(
        f"{options.output}: {len(plan.runs)} runs, {size / 1e6:.1f} MB; "
        "on the target machine: python run.py"
    )
    if size > LARGE_BYTES:
        print(
            f"warning: the bundle is larger than {LARGE_BYTES / 2**20:.0f} MiB. "
            "Fix: bundle fewer models or builds at once."
        )
    return 0


def _write(
    folder: Path, plan: Plan, contents: Mapping[str, bytes], datasets: Mapping[str, Path]
) -> int:
    """Writes `contents`, `datasets`, the worker and the user's Python files into `folder`, which
    must be new or empty. Returns the number of bytes."""
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError("is not empty.", where=str(folder), remedy="name a new folder.")
    sources = dict(datasets)
    own = {}
    for file in _own_files(plan):
        short = hashlib.sha256(str(file).encode()).hexdigest()[:8]
        own[str(file)] = f"own/{short}/{file.name}"
        sources[own[str(file)]] = file
    package = Path(rnnworker.__file__).parent
    sources |= {f.relative_to(package.parent).as_posix(): f for f in package.rglob("*.py")}
    library = nvml()
    if library:
        sources[NVML] = Path(library)
    files = {**contents, **{name: file.read_bytes() for name, file in sources.items()}}
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    about = {"schema": SCHEMA, "experiment": plan.experiment.name, "files": digests, "own": own}
    files["bundle.json"] = json_bytes(about)
    try:
        for name, content in files.items():
            write_bytes(folder / name, content)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return sum(map(len, files.values()))


def _own_files(plan: Plan) -> list[Path]:
    """The user's Python files, which runs name by their local paths."""
    certified = (entry for item in plan.certificates.values() for entry in item.implementations)
    configs = [run.config for run in plan.runs.values()] + [{"rnn": e["rnn"]} for e in certified]
    return sorted(set().union(*map(user_files, configs)))


def _entry(planned: Run | Certificate, root: Path, pins: Mapping[str, Any]) -> dict[str, Any]:
    """A planned run or certificate as the bundle's files hold it. The packages of a build
    without a lock are known only on the target machine."""
    identity = dict(planned.identity)
    if pins_of(planned.config["build"], root) is None:
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
    parser = command_parser(export)
    add_experiment(parser)
    add_output(parser, "FILE.zip", "file")
    parser.add_argument("--site", action="append", help="only this site; repeatable (default: all)")
    add_results(parser)
    options = parser.parse_args(arguments)
    folders = planned_folders(options.results, options.experiment)
    known = {folder.parent.name: folder for folder in folders}
    sites = options.site or list(known)
    if not known or set(sites) - set(known):
        what = f"has no runs of {options.experiment} at {', '.join(sites) or 'any site'}."
        measured = [folder.name for folder in planned_folders(options.results, "*")]
        remedy = f"{suggestion(options.experiment, measured)}run the experiment first."
        if known:
            remedy = f"name a site that has some: {', '.join(known)}."
        raise ConfigError(what, where=str(options.results), remedy=remedy)
    files = {name: file for site in sites for name, file in archive.files_of(known[site]).items()}
    archive.write(options.output, files)
    records = sum(map(is_record, files.values()))
    print(f"{options.output}: {records} records of {options.experiment} at {', '.join(sites)}")
    return 0


def import_(arguments: Sequence[str]) -> int:
    """Import the records that another machine exported or that a bundle measured.

    All files are checked before anything is written. They go into results/imported/, and nothing
    that was measured here is changed. With --restore, they count as this machine's own results,
    such as a backup: they go into results/ itself, and the command names each file that it
    replaces.
    """
    parser = command_parser(import_)
    sources = "a file that `rnnbench export` wrote, or a bundle's folder after its runs"
    parser.add_argument("sources", nargs="+", type=Path, metavar="FILE|FOLDER", help=sources)
    restore = "bring back results of this machine: a backup, or a bundle that ran here"
    parser.add_argument("--restore", action="store_true", help=restore)
    add_results(parser)
    options = parser.parse_args(arguments)
    with exclusive(options.results, "rnnbench import"):
        _import(options.sources, options.results, options.restore)
    return 0


def _import(sources: Sequence[Path], results: Path, restore: bool) -> None:
    root = results if restore else results / IMPORTED
    local = set() if restore else _own_names(results)
    with ExitStack() as stack:
        checked = {}
        for source in sources:
            files = tempfile.TemporaryDirectory(prefix=incoming.UNPACKED, dir=results)
            folder = Path(stack.enter_context(files))
            if not source.exists():
                raise RecordError("does not exist.", where=str(source))
            read = outcomes.lay_out if source.is_dir() else archive.unpack
            try:
                read(source, folder)
                checked[source] = incoming.examine(folder, root, local)
            except RecordError as error:
                raise _refused(source, folder, error) from error
        for source, admitted in checked.items():
            admitted.write()
            print(
                f"{source}: {admitted.records} records of {admitted.experiment}, "
                f"{len(admitted.files)} files written, {admitted.known} known already"
                + (f", {admitted.kept} newer files kept" if admitted.kept else "")
            )
            if admitted.probes:
                print(f"left out: {admitted.probes} probes, which rnnbench no longer makes")
            for name in admitted.replaced if restore else ():
                print(f"replaced: {root / name}")


def _refused(source: Path, folder: Path, error: RecordError) -> RecordError:
    where = error.where.replace(f"{folder}/", "") if error.where != str(source) else ""
    what = f"{where}: {error.what}" if where else error.what
    return RecordError(
        f"{what.rstrip('.')}; nothing was imported.",
        where=str(source),
        remedy=error.remedy or "export it again on its machine, with the same version of rnnbench.",
    )


def _own_names(results: Path) -> set[str]:
    """This machine, and every site and machine that has results in this project."""
    folders = [*results.glob("*"), *results.glob("records/*")]
    return {machine.fingerprint()["machine"], *(folder.name for folder in folders)}
