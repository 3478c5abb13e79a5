"""Estimate an experiment's runs, time, disk space and the repeats that it needs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.filesize import decimal

from rnnbench.commands.arguments import experiment_parser, parse_experiment
from rnnbench.errors import RecordError
from rnnbench.grid.point import configuration_of, full_identity
from rnnbench.planning.forecast import (
    ENVIRONMENT_BYTES,
    FinishedRun,
    Forecast,
    forecast,
    repeats_for,
)
from rnnbench.planning.plan import Plan
from rnnbench.planning.planner import make_plan
from rnnbench.records.record import Record, Run
from rnnbench.records.store import has_record, read_record, record_files
from rnnbench.report.numbers import counted
from rnnbench.running import host_check
from rnnbench.running.progress import duration
from rnnbench.tables.effects import effects_of, relative_values
from rnnworker import machine

DIFFERENCES = (0.02, 0.05, 0.10)
DIGEST = re.compile(r"[0-9a-f]{32,64}")
MAX_RECORDS = 400  # each takes about 5 ms to read


def plan(arguments: Sequence[str]) -> int:
    """Estimate an experiment's runs, time, disk space and the repeats that it needs."""
    parser = experiment_parser(plan)
    parser.add_argument("--site", help="a cluster's name (default: this machine)")
    parser.add_argument(
        "--why",
        action="store_true",
        help="print only what has changed for the runs that will be measured again",
    )
    root = Path.cwd()
    options = parse_experiment(parser, arguments, root / "conf")
    overrides = " ".join(options.overrides)
    made = make_plan(options.experiment, options.conf, root, site=options.site, overrides=overrides)
    results = root / "results"
    if options.why:
        text = changes_by_run(made, results)
    else:
        left = [run.name for run in made.runs.values() if not _is_done(run, made, results)]
        estimate = forecast(left, _past(made, results), lambda: _elsewhere(made, results))
        text = estimate_lines(made, estimate, _missing_environments(made, root))
        if left:
            warnings = host_check.warnings(host_check.read_host_facts())
            text += [f"now:   {warning}" for warning in warnings]
    for line in text:
        print(line)
    return 0


def estimate_lines(plan: Plan, estimate: Forecast, environments: int) -> list[str]:
    """The lines to print. `environments`: how many must be made."""
    runs = len(plan.runs)
    text = [
        f"{plan.experiment.name}: {counted(runs, 'run')} in {counted(len(plan.rounds), 'round')}, "
        f"{runs - estimate.left} done, {estimate.left} to do"
    ]
    if plan.skipped:
        points = counted(len(plan.skipped), "grid point")
        text[0] += f" ({points} cannot run here: `rnnbench grid {plan.experiment.name}` says why)"
    if estimate.left:
        text += _cost_lines(plan, estimate, environments)
    basis = "a guess"
    if estimate.degrees_of_freedom:
        basis = f"measured, {estimate.degrees_of_freedom} degrees of freedom"
        if estimate.borrowed:
            basis += ", including other configurations on this machine"
    text.append(f"spread between runs: {estimate.spread:.2%} ({basis})")
    text.append("repeats of each configuration needed to show that it takes longer by")
    for difference in DIFFERENCES:
        repeats = repeats_for(difference, estimate.spread)
        text.append(f"  {difference:4.0%}:  {repeats or 'more than 10,000'}")
    text.append("  (compared with another one; 95 % interval, power 80 %)")
    return text


def _cost_lines(plan: Plan, estimate: Forecast, environments: int) -> list[str]:
    basis = "from finished runs of the same configurations"
    if estimate.guessed == estimate.left:
        basis = "a guess: none of the configurations has a finished run here"
    elif estimate.guessed:
        runs = counted(estimate.guessed, "run")
        basis = f"for {runs} a guess, from the runs of other configurations"
    time = f"time:  about {duration(estimate.seconds)} ({basis})"
    if plan.experiment.repeats:
        time += ", at most: repeats beyond the minimum are measured only if needed"
    disk = f"disk:  about {decimal(round(estimate.bytes))} of records"
    if environments:
        size = decimal(round(environments * ENVIRONMENT_BYTES))
        disk += f", and about {size} for {counted(environments, 'environment')} (a guess)"
    return [time, disk]


def changes_by_run(plan: Plan, results: Path) -> list[str]:
    """The changes since the last measurement of each run that will be measured again. Runs with
    the same changes share an entry."""
    local_machine, new = machine.fingerprint()["machine"], 0
    names_by_changes: dict[tuple[str, ...], list[str]] = {}
    for run in plan.runs.values():
        if _is_done(run, plan, results):
            continue
        files = record_files(results, local_machine, run.name)
        if not files:
            new += 1
            continue
        with suppress(RecordError):
            record = read_record(files[-1])
            unchanged = ("nothing: its record is void, marked for retry or not adopted",)
            before, after = (full_identity(r.config, r.identity) for r in (record.run, run))
            changes = tuple(changed(before, after)) or unchanged
            names_by_changes.setdefault(changes, []).append(run.name)
    text = [f"{counted(new, 'run')} without a record"] if new else []
    for changes, names in names_by_changes.items():
        text.append(f"{counted(len(names), 'run')}, such as {names[0]}:")
        text += [f"  {change}" for change in changes]
    return text or ["nothing to do"]


def changed(before: Mapping[str, Any], after: Mapping[str, Any], prefix: str = "") -> list[str]:
    """The keys in which two identities differ, such as ``model.epochs: 5 → 9``. Values of digests
    are left out."""
    changes = []
    for key in dict.fromkeys([*before, *after]):
        old, new = before.get(key), after.get(key)
        name = f"{prefix}{key}".removeprefix("config.")
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            changes += changed(old, new, f"{prefix}{key}.")
        elif old != new:
            digest = any(isinstance(value, str) and DIGEST.fullmatch(value) for value in (old, new))
            changes.append(f"{name} changed" if digest else f"{name}: {old!r} → {new!r}")
    return changes


def _is_done(run: Run, plan: Plan, results: Path) -> bool:
    pointer = results / plan.site / plan.experiment.name / f"{run.name}.json"
    repeats = plan.experiment.repeats
    return has_record(run, results, pointer, repeats.as_dict() if repeats else None)


def _past(plan: Plan, results: Path) -> list[FinishedRun]:
    """This machine's newest record of each run of the plan."""
    local_machine = machine.fingerprint()["machine"]
    newest = (record_files(results, local_machine, name)[-1:] for name in plan.runs)
    return _as_past([path for paths in newest for path in paths])


def _elsewhere(plan: Plan, results: Path) -> list[FinishedRun]:
    """This machine's newest records of runs that are not in the plan."""
    files = record_files(results, machine.fingerprint()["machine"])
    others = [path for path in files if path.parent.name not in plan.runs]
    return _as_past(sorted(others, key=lambda path: path.name, reverse=True)[:MAX_RECORDS])


def _as_past(files: Sequence[Path]) -> list[FinishedRun]:
    records: dict[Path, Record] = {}
    for path in files:
        with suppress(RecordError):
            records[path] = read_record(path)
    everything = list(records.values())
    effects = effects_of(everything)
    values = relative_values(everything, effects)
    return [
        FinishedRun(
            name=record.name,
            wall_seconds=float(wall) if isinstance(wall, int | float) else None,
            bytes=sum(part.stat().st_size for part in path.parent.glob(f"{record.started}.*")),
            value=values.get(record.key),
            company=_company(record) if record.key in effects else (),
            widening=effects[record.key].widening if record.key in effects else 1.0,
        )
        for path, record in records.items()
        for wall in [record.measured.get("wall_seconds")]
    ]


def _company(record: Record) -> tuple[str, ...]:
    members = record.round.members if record.round else ()
    return tuple(sorted(map(configuration_of, members)))


def _missing_environments(plan: Plan, root: Path) -> int:
    return sum(not pins.folder(root).exists() for pins in plan.environments.values())
