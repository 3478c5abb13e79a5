"""``rnnbench plan EXPERIMENT``: how many runs, how long, how much disk, before anything runs."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rnnbench.commands.experiment_arguments import add_experiment, conf_folders, parse_words
from rnnbench.errors import RecordError
from rnnbench.grid.point import cell_of
from rnnbench.planning.forecast import ENVIRONMENT_BYTES, Forecast, Past, forecast, repeats_for
from rnnbench.planning.plan import Plan, Run, make_plan
from rnnbench.records.record import Record
from rnnbench.records.store import read_json, read_record, record_files
from rnnbench.report.numbers import counted
from rnnbench.running.finished_runs import value_of
from rnnbench.running.progress import duration
from rnnworker import machine

DIFFERENCES = (0.02, 0.05, 0.10)
DIGEST = re.compile(r"[0-9a-f]{32,64}")
MOST_RECORDS = 400  # some 5 ms each to read


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="rnnbench plan", description=__doc__)
    add_experiment(parser)
    parser.add_argument("--site", help="a cluster's name; default: this machine")
    parser.add_argument(
        "--why", action="store_true", help="what has changed of the runs that are to be done again"
    )
    options = parser.parse_intermixed_args(list(arguments))
    root = Path.cwd()
    wanted = parse_words(options.words)
    conf = conf_folders(root / "conf", options.conf)
    plan = make_plan(wanted.experiment, conf, root, site=options.site, overrides=wanted.text)
    results = root / "results"
    if options.why:
        for line in why_again(plan, results):
            print(line)
        return 0
    left = [run.name for run in plan.runs.values() if not _is_done(run, plan, results)]
    found = forecast(left, _past(plan, results), lambda: _elsewhere(plan, results))
    for line in lines(plan, found, _environments(plan, root)):
        print(line)
    return 0


def lines(plan: Plan, found: Forecast, environments: int) -> list[str]:
    """What is printed."""
    runs = len(plan.runs)
    text = [
        f"{plan.experiment.name}: {counted(runs, 'run')} in {counted(len(plan.rounds), 'round')}, "
        f"{runs - found.left} done, {found.left} to do"
    ]
    if plan.skipped:
        cells = counted(len(plan.skipped), "cell")
        text[0] += f" ({cells} cannot run here: `rnnbench grid {plan.experiment.name}` says why)"
    if found.left:
        text += _needed(plan, found, environments)
    known = f"measured, {found.freedom} degrees of freedom" if found.freedom else "a guess"
    if found.freedom and found.borrowed:
        known += ", on this machine's other cells too"
    text.append(f"spread between runs: {found.spread:.2%} ({known})")
    text.append("repeats of each cell needed to show that one takes longer by")
    for difference in DIFFERENCES:
        repeats = repeats_for(difference, found.spread)
        text.append(f"  {difference:4.0%}:  {repeats or 'more than 10,000'}")
    text.append("  (two cells, 95 % interval, in four of five experiments)")
    return text


def _needed(plan: Plan, found: Forecast, environments: int) -> list[str]:
    basis = "from finished runs of the same cells"
    if found.guessed == found.left:
        basis = "a guess: no cell of it has a finished run here"
    elif found.guessed:
        basis = f"for {counted(found.guessed, 'run')} a guess, from the other cells' runs"
    time = f"time:  about {duration(found.seconds)} ({basis})"
    if plan.experiment.repeats:
        time += ", at most: repeats beyond the least are measured where they are needed"
    disk = f"disk:  about {_size(found.bytes)} of records"
    if environments:
        size = _size(environments * ENVIRONMENT_BYTES)
        disk += f", and about {size} for {counted(environments, 'environment')} (a guess)"
    return [time, disk]


def why_again(plan: Plan, results: Path) -> list[str]:
    """What has changed since each run that is to be measured again was measured, the same changes
    of many runs in one line."""
    here, new = machine.fingerprint()["machine"], 0
    found: dict[tuple[str, ...], list[str]] = {}
    for run in plan.runs.values():
        if _is_done(run, plan, results):
            continue
        files = record_files(results, here, run.name)
        if not files:
            new += 1
            continue
        with suppress(RecordError):
            record = read_record(files[-1])
            again = ("nothing: its record is void, asked for again, or not taken over",)
            changes = tuple(changed(record.identity, run.identity)) or again
            found.setdefault(changes, []).append(run.name)
    text = [f"{counted(new, 'run')} without a record"] if new else []
    for changes, names in found.items():
        text.append(f"{counted(len(names), 'run')}, such as {names[0]}:")
        text += [f"  {change}" for change in changes]
    return text or ["nothing is to be done"]


def changed(before: Mapping[str, Any], after: Mapping[str, Any], above: str = "") -> list[str]:
    """The keys of two identities that differ, as ``model.optimizer.learning_rate: 0.001 → 0.01``.
    Of a digest only that it is another one."""
    found = []
    for key in dict.fromkeys([*before, *after]):
        old, new = before.get(key), after.get(key)
        name = f"{above}{key}".removeprefix("config.")
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found += changed(old, new, f"{above}{key}.")
        elif old != new:
            digest = any(isinstance(one, str) and DIGEST.fullmatch(one) for one in (old, new))
            found.append(f"{name} is another" if digest else f"{name}: {old!r} → {new!r}")
    return found


def _is_done(run: Run, plan: Plan, results: Path) -> bool:
    pointer = results / plan.site / plan.experiment.name / f"{run.name}.json"
    try:
        data = read_json(pointer)
    except RecordError:
        return False
    return isinstance(data, dict) and data.get("digest") == run.digest


def _past(plan: Plan, results: Path) -> Iterator[Past]:
    """The newest record of each run of the plan, on this machine."""
    here = machine.fingerprint()["machine"]
    for name in plan.runs:
        for path in record_files(results, here, name)[-1:]:
            with suppress(RecordError):
                yield _as_past(read_record(path), path)


def _elsewhere(plan: Plan, results: Path) -> Iterator[Past]:
    """The newest records of this machine that are not of the plan's runs."""
    here = record_files(results, machine.fingerprint()["machine"])
    others = [path for path in here if path.parent.name not in plan.runs]
    for path in sorted(others, key=lambda path: path.name, reverse=True)[:MOST_RECORDS]:
        with suppress(RecordError):
            yield _as_past(read_record(path), path)


def _as_past(record: Record, path: Path) -> Past:
    seconds = [epoch.seconds for epoch in record.epochs]
    usable = record.verdict.status != "void" and seconds
    wall = record.measured.get("wall_seconds")
    return Past(
        name=record.name,
        wall_seconds=float(wall) if isinstance(wall, int | float) else None,
        bytes=sum(part.stat().st_size for part in path.parent.glob(f"{record.started}.*")),
        value=value_of(record) if usable else None,
        company=_company(record),
    )


def _company(record: Record) -> tuple[str, ...]:
    about = record.round or {}
    members = about["members"] if about.get("effect") is not None else ()
    return tuple(sorted(map(cell_of, members)))


def _environments(plan: Plan, root: Path) -> int:
    return sum(not pins.folder(root).exists() for pins in plan.environments.values())


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
