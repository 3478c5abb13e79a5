"""The commands that change what is in the results folder: `retry` and `gc`."""

from __future__ import annotations

import fnmatch
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from rnnbench.builds.pins import ENVIRONMENTS, build_of, pins_of
from rnnbench.commands.arguments import EXPERIMENT, RESULTS, ROOT, Arguments, command_parser
from rnnbench.errors import ConfigError, RnnbenchError, say
from rnnbench.exchange.incoming import UNPACKED
from rnnbench.grid.point import configuration_of
from rnnbench.locks import exclusive
from rnnbench.records.plan_file import read_runs
from rnnbench.records.predictions import planned_files
from rnnbench.records.record import NOT_CERTIFIED
from rnnbench.records.rounds import (
    Result,
    read_results,
    records_at,
    results_at,
    round_files,
    write_results,
)
from rnnbench.records.store import RETRIED, UNREADABLE, read_json, readable
from rnnworker import machine

YOUNG_SECONDS = 86_400.0  # younger files may still be in use
ATTEMPT_SUFFIXES = (".log", ".events.jsonl", ".job.json")
RECORD_SUFFIXES = (".json", UNREADABLE, RETRIED)


def retry(arguments: Sequence[str]) -> int:
    """Mark runs that the next start measures again; without names, all void runs.

    Their records are kept under another name; new records are stored next to them.
    """
    declared: Arguments = {
        "experiment": EXPERIMENT,
        "names": {
            "nargs": "*",
            "metavar": "NAME",
            "help": "the name of a run, or a pattern with * (default: all void runs)",
        },
        "--site": {"help": "the site whose runs are retried (default: this machine)"},
        "--results": RESULTS,
    }
    options = command_parser(retry, declared).parse_args(arguments)

    site = options.site or machine.fingerprint()["machine"]
    folder = options.results / site / options.experiment
    if not folder.is_dir():
        raise ConfigError(
            "has no finished run.",
            where=str(folder),
            remedy="run snakemake first; imported runs are measured again on their own machine.",
        )

    if planned_files(folder):
        raise ConfigError(
            "has predictions, not runs.",
            where=options.experiment,
            remedy=f"remove {folder / 'predictions'}/NAME.json, and it is measured again.",
        )

    with exclusive(options.results, "rnnbench retry"):
        removed, total = _set_aside(folder, options.names)
    measured = sum(result.record is not None for result in removed)
    undecided = len(removed) - measured
    beside = ""
    if measured:
        beside = ", next to the runs that they are compared with"
    if not removed and not options.names:
        beside = ": none is void, and '*' names all"
    print(f"The next start measures {measured} of {total} runs again{beside}.")
    if undecided:
        print(f"Not needed so far, and decided about again: {undecided} of {total} runs.")
    return 0


def _set_aside(folder: Path, patterns: Sequence[str]) -> tuple[list[Result], int]:
    """Sets the records of runs aside, and removes the runs from the files of their rounds, with
    those repeats of their configurations that were not needed.

    - `folder`: that of the experiment at its site.
    - `patterns`: of the names of the runs, each of which must match some; none for all void runs.

    Returns the results that the removed runs had, and the number of all runs. Raises `ConfigError`.
    """
    # With those of a round that failed: the next start would adopt its records.
    results, _ = results_at(folder)
    chosen: set[str] = set()
    for pattern in patterns:
        found = fnmatch.filter(results, pattern)
        if not found:
            raise ConfigError(
                f"no finished run is named {pattern!r}.",
                where="retry",
                remedy="`rnnbench grid EXPERIMENT` prints the names; a pattern has a *, in quotes.",
            )
        chosen.update(found)

    if not patterns:
        chosen = {name for name, each in results.items() if each.verdict == "void"}

    records, _ = records_at(folder, sorted(chosen))
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
    again = set(map(configuration_of, chosen))
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
    return [results[name] for name in removed], len(results)


def gc(arguments: Sequence[str]) -> int:
    """List unused files, ask, and remove them.

    These files are unused: environments that no plan in results/ uses with its present pins; logs
    and events of attempts that left no record; partially written files of killed processes; and
    MLflow databases that were set aside as corrupt. Records are always kept, even unreadable ones.
    """
    declared: Arguments = {
        "--yes": {"action": "store_true", "help": "remove without asking"},
        "--root": ROOT,
    }
    options = command_parser(gc, declared).parse_args(arguments)

    root = options.root.resolve()
    results = root / "results"
    if not results.is_dir():
        print("There is no results folder, and nothing to remove.")
        return 0
    with exclusive(results, "rnnbench gc"):
        _collect(root, results, options.yes)
    return 0


def _collect(root: Path, results: Path, yes: bool) -> None:
    """Lists the unused files, asks unless `yes`, and removes them."""
    garbage = dict(unused(root, results))
    if not garbage:
        print("All files in results/ are in use: there is nothing to remove.")
        return

    total = 0
    for path, why in garbage.items():
        files = path.rglob("*") if _is_folder(path) else [path]
        size = sum(file.lstat().st_size for file in files)
        total += size
        print(f"{size / 1e6:9.1f} MB  {path.relative_to(root)}  ({why})")

    what = f"{len(garbage)} ({total / 1e6:.1f} MB)"
    if not yes and not sys.stdin.isatty():
        print("Nothing was removed: add --yes.")
        return
    if not yes:
        answer = input(f"Remove these {what}? [y/N] ")
        if answer.strip().lower() not in ("y", "yes"):
            print("Nothing was removed.")
            return

    for path in garbage:
        if _is_folder(path):
            shutil.rmtree(path)
        else:
            path.unlink()
    print(f"Removed {what}.")


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def unused(root: Path, results: Path) -> Iterator[tuple[Path, str]]:
    """The removable files and folders, each with the reason."""
    for path in _unused_environments(root, results):
        yield path, "no plan uses it"

    old = time.time() - YOUNG_SECONDS
    for path in sorted(results.glob("records/*/*/[!.]*")):
        started = path.name.partition(".")[0]
        records = [path.with_name(f"{started}{suffix}") for suffix in RECORD_SUFFIXES]
        is_of_attempt = path.name.endswith(ATTEMPT_SUFFIXES)
        if is_of_attempt and not any(map(Path.exists, records)) and _is_older(path, old):
            yield path, "of an attempt that left no record"

    for pattern in ("**/.*.json.*", "*/*/.plan.jsonl.*"):
        for path in sorted(results.glob(pattern)):
            in_environment = path.is_relative_to(results / "envs")
            if path.is_file() and not in_environment and _is_older(path, old):
                yield path, "partially written"

    for path in sorted(results.glob(f"{UNPACKED}*")):
        yield path, "left by an import that was killed"


def _unused_environments(root: Path, results: Path) -> Iterator[Path]:
    """The files and folders of environments that no plan uses with its present pins; none if their
    folder is elsewhere, where other projects may use them."""
    folder = root / ENVIRONMENTS
    if folder.exists() and not folder.resolve().is_relative_to(root.resolve()):
        say(f"{folder} is a link to {folder.resolve()}: its environments are kept.")
        return
    used = set()
    for plan in results.glob("*/*/plan.jsonl"):
        configs = [run.config for run in read_runs(plan)]
        predictions = plan.with_name("predictions.json")
        if predictions.exists():
            configs += [each["config"] for each in read_json(predictions).values()]
        for config in configs:
            with suppress(RnnbenchError):
                pins = pins_of(build_of(config["build"]), root)
                if pins:
                    used.add(pins.key)

    for path in sorted(folder.glob("*-????????*")):
        key = path.name.partition(".json")[0].removesuffix(".lock")
        # Lock files are empty, and a process may be waiting for one.
        if key not in used and path.suffix != ".lock":
            yield path


def _is_older(path: Path, moment: float) -> bool:
    with suppress(OSError):
        return path.lstat().st_mtime < moment
    return False
