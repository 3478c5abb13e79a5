"""The commands that change what is in the results folder: `retry` and `gc`."""

from __future__ import annotations

import fnmatch
import json
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from rnnbench.builds.pins import ENVIRONMENTS, pins_of
from rnnbench.commands.arguments import add_experiment, add_results, add_root, command_parser
from rnnbench.errors import ConfigError, RnnbenchError
from rnnbench.exchange.incoming import UNPACKED
from rnnbench.grid.point import configuration_of
from rnnbench.locks import exclusive
from rnnbench.records.plan_file import read_runs
from rnnbench.records.record import NOT_CERTIFIED
from rnnbench.records.rounds import (
    read_results,
    records_at,
    results_in,
    round_files,
    write_results,
)
from rnnbench.records.store import RETRIED, UNREADABLE, readable
from rnnworker import machine

YOUNG_SECONDS = 86_400.0  # younger files may still be in use
ATTEMPT_SUFFIXES = (".log", ".events.jsonl", ".job.json")
RECORD_SUFFIXES = (".json", UNREADABLE, RETRIED)


def retry(arguments: Sequence[str]) -> int:
    """Mark runs that the next start measures again; without names, all void runs.

    Their records are kept under another name; new records are stored next to them.
    """
    parser = command_parser(retry)
    add_experiment(parser)
    names = "the name of a run, or a pattern with * (default: all void runs)"
    parser.add_argument("names", nargs="*", metavar="NAME", help=names)
    parser.add_argument("--site", help="the site whose runs are retried (default: this machine)")
    add_results(parser)
    options = parser.parse_args(arguments)
    site = options.site or machine.fingerprint()["machine"]
    folder = options.results / site / options.experiment
    if not folder.is_dir():
        raise _no_finished_run(folder)
    with exclusive(options.results, "rnnbench retry"):
        chosen, total = _set_aside(folder, options.names)
    print(f"The next snakemake measures {len(chosen)} of {total} runs again.")
    return 0


def _set_aside(folder: Path, names: Sequence[str]) -> tuple[Sequence[str], int]:
    """Sets the records of the chosen runs aside, and removes the runs from the files of their
    rounds. Returns their names and the number of all runs."""
    results, _ = results_in(folder)
    if not results:
        raise _no_finished_run(folder)
    chosen = _chosen(results, names)
    if not chosen:
        chosen = sorted(name for name, each in results.items() if each.verdict == "void")
    records, _ = records_at(folder, chosen)
    for record in records:
        if record.is_companion:
            continue
        file = folder.parents[1] / record.path
        file.rename(file.with_suffix(RETRIED))
        if any(reason.code == NOT_CERTIFIED for reason in record.verdict.reasons):
            # Made again too: what failed may have been memory, and not the implementation.
            certificate = folder / "certificates" / f"{record.run.certificate}.json"
            certificate.unlink(missing_ok=True)

    # The new measurement of a configuration may change which of its repeats are needed.
    again = {configuration_of(name) for name in chosen}
    removed = set(chosen)
    for name, result in results.items():
        if result.not_needed and configuration_of(name) in again:
            removed.add(name)
    rounds, _ = readable(round_files(folder), lambda file: (file, read_results(file)))
    for file, members in rounds:
        left = {name: result for name, result in members.items() if name not in removed}
        if not left:
            file.unlink()
        elif len(left) < len(members):
            write_results(file, left)
    return chosen, len(results)


def _no_finished_run(folder: Path) -> ConfigError:
    return ConfigError(
        "has no finished run.",
        where=str(folder),
        remedy="run snakemake first.",
    )


def _chosen(runs: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """Those of the `runs` that match one of the `patterns`, each of which matches some."""
    matches = {pattern: fnmatch.filter(runs, pattern) for pattern in patterns}
    for pattern, found in matches.items():
        if not found:
            raise ConfigError(
                f"no finished run is named {pattern!r}.",
                where="retry",
                remedy="`rnnbench grid EXPERIMENT` prints the names; a pattern has a *, in quotes.",
            )
    return sorted(set().union(*matches.values()))


def gc(arguments: Sequence[str]) -> int:
    """List unused files, ask, and remove them.

    These files are unused: environments that no plan in results/ uses with its present pins; logs
    and events of attempts that left no record; partially written files of killed processes; and
    MLflow databases that were set aside as corrupt. Records are always kept, even unreadable ones.
    """
    parser = command_parser(gc)
    parser.add_argument("--yes", action="store_true", help="remove without asking")
    add_root(parser)
    options = parser.parse_args(arguments)
    root = options.root.resolve()
    results = root / "results"
    if not results.is_dir():
        print("There is no results folder, and nothing to remove.")
        return 0
    with exclusive(results, "rnnbench gc"):
        return _collect(root, results, options.yes)


def _collect(root: Path, results: Path, yes: bool) -> int:
    garbage = {path: (_size(path), why) for path, why in unused(root, results)}
    if not garbage:
        print("All files in results/ are in use: there is nothing to remove.")
        return 0
    for path, (size, why) in garbage.items():
        print(f"{size / 1e6:9.1f} MB  {path.relative_to(root)}  ({why})")
    total = sum(size for size, _ in garbage.values()) / 1e6
    question = f"Remove these {len(garbage)} ({total:.1f} MB)? [y/N] "
    if not yes and not (sys.stdin.isatty() and input(question).strip().lower() in ("y", "yes")):
        print("Nothing was removed." if sys.stdin.isatty() else "Nothing was removed: add --yes.")
        return 0
    for path in garbage:
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    print(f"Removed {len(garbage)} ({total:.1f} MB).")
    return 0


def unused(root: Path, results: Path) -> Iterator[tuple[Path, str]]:
    """The removable files and folders, each with the reason."""
    yield from _environments(root, results)
    old = time.time() - YOUNG_SECONDS
    for path in sorted(results.glob("records/*/*/[!.]*")):
        started = path.name.partition(".")[0]
        has_record = any((path.parent / f"{started}{end}").exists() for end in RECORD_SUFFIXES)
        left_behind = path.name.endswith(ATTEMPT_SUFFIXES) and not has_record
        if left_behind and _is_older(path, old):
            yield path, "of an attempt that left no record"
    for pattern in ("**/.*.json.*", "*/*/.plan.jsonl.*"):
        for path in sorted(results.glob(pattern)):
            in_environment = path.parts[len(results.parts)] == "envs"
            if path.is_file() and not in_environment and _is_older(path, old):
                yield path, "partially written"
    for path in sorted(results.glob(f"{UNPACKED}*")):
        yield path, "left by an import that was killed"
    for path in sorted(root.glob("mlflow.db.corrupt-*")):
        yield path, "a corrupt MLflow store; the records hold all of its data"


def _environments(root: Path, results: Path) -> Iterator[tuple[Path, str]]:
    used = _used_environments(root, results)
    folder = root / ENVIRONMENTS
    for path in sorted(folder.glob("*-????????*")):
        key = path.name.partition(".json")[0].removesuffix(".lock")
        # Lock files are empty, and a process may be waiting for one.
        if key not in used and path.suffix != ".lock":
            yield path, "no plan uses it"


def _used_environments(root: Path, results: Path) -> set[str]:
    planned = (run.config["build"] for f in results.glob("*/*/plan.jsonl") for run in read_runs(f))
    builds = {json.dumps(build, sort_keys=True): build for build in planned}
    used: set[str] = set()
    for build in builds.values():
        with suppress(RnnbenchError):
            pins = pins_of(build, root)
            used |= {pins.key} if pins else set()
    return used


def _is_older(path: Path, moment: float) -> bool:
    with suppress(OSError):
        return path.lstat().st_mtime < moment
    return False


def _size(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() and not path.is_symlink() else [path]
    return sum(file.lstat().st_size for file in files)
