"""Estimate the runs, time, disk space and repeats that an experiment needs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from rich.filesize import decimal

from rnnbench.builds.launcher import versions
from rnnbench.commands.arguments import experiment_parser, parse_experiment
from rnnbench.errors import RecordError, RnnbenchError
from rnnbench.grid.files import user_files
from rnnbench.grid.point import full_identity
from rnnbench.planning.finished import FinishedRun, finished
from rnnbench.planning.forecast import ENVIRONMENT_BYTES, Forecast, forecast, repeats_for
from rnnbench.planning.plan import Plan
from rnnbench.planning.planner import NothingToRun, make_plan
from rnnbench.records import timestamps
from rnnbench.records.record import Record, Run
from rnnbench.records.rounds import results_in, unfinished
from rnnbench.records.store import read_record, readable, record_files
from rnnbench.report.numbers import counted
from rnnbench.running import host_check
from rnnbench.running.progress import duration
from rnnworker import machine

LOCK = "build_lock changed"
CODE = "worker changed"  # the Python code of a run: of its model, its kernel or rnnbench
DIFFERENCES = (0.02, 0.05, 0.10)
DIGEST = re.compile(r"[0-9a-f]{32,64}")
MAX_RECORDS = 400  # each takes about 5 ms to read


def plan(arguments: Sequence[str]) -> int:
    """Estimate the runs, time, disk space and repeats that an experiment needs."""
    parser = experiment_parser(plan)
    parser.add_argument("--site", help="the name of a cluster (default: this machine)")
    parser.add_argument(
        "--why",
        action="store_true",
        help="print only what has changed for the runs that will be measured again",
    )
    root = Path.cwd()
    options = parse_experiment(parser, arguments, root)
    overrides = " ".join(options.overrides)
    try:
        made = make_plan(
            options.experiment,
            options.conf,
            root,
            site=options.site,
            overrides=overrides,
        )
    except NothingToRun as error:
        print(error)
        return 0
    results = root / "results"
    if options.why:
        text = changes_by_run(made, results, root)
    else:
        to_do = _to_do(made, results)
        left = {run.name: _samples(run.config["model"]) for run in to_do}
        here = machine.fingerprint()["machine"]
        files = [file for name in made.runs for file in record_files(results, here, name)[-1:]]
        sizes = []
        for file in files:
            parts = file.parent.glob(f"{file.stem}.*")
            sizes.append(sum(part.stat().st_size for part in parts))
        rule = made.experiment.repeats
        estimate = forecast(
            left,
            _finished(files),
            lambda: _elsewhere(made, results, here),
            sizes,
            {name for name in left if rule and made.runs[name].repeat >= rule.least},
            rule.budget_s if rule else None,
        )
        lacking = sum(not pins.folder(root).exists() for pins in made.environments.values())
        words = " ".join([options.experiment, *options.overrides])
        text = estimate_lines(made, estimate, lacking, words)
        if left:
            warnings = host_check.warnings(host_check.read_host_facts())
            text += [f"now:   {warning}" for warning in warnings]
    print("\n".join(text))
    return 0


def estimate_lines(plan: Plan, estimate: Forecast, environments: int, words: str) -> list[str]:
    """The lines to print. `environments`: how many must be made; `words`: those of the command."""
    runs = len(plan.runs)
    text = [
        f"{plan.experiment.name}: {counted(runs, 'run')} in {counted(len(plan.rounds), 'round')}, "
        f"{runs - estimate.left} done, {estimate.left} to do"
    ]
    if plan.skipped:
        points = counted(len(plan.skipped), "grid point")
        text[0] += f" ({points} cannot run here: `rnnbench grid {words}` says why)"
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
    about = "about"
    if estimate.guessed == estimate.left:
        basis = "a guess: none of the configurations has a finished run here"
        models = [run.config["model"] for run in plan.runs.values()]
        if any(model.get("train_samples", 0) is None for model in models):
            about = "at least"
            basis = f"{basis}, and they train on all samples"
    elif estimate.guessed:
        runs = counted(estimate.guessed, "run")
        basis = f"for {runs} a guess, from the runs of other configurations"
    time = f"time:  {about} {duration(estimate.seconds)} ({basis})"
    if plan.experiment.repeats and about == "about":
        time += ", at most: repeats beyond the minimum are measured only if needed"
    disk = f"disk:  about {decimal(round(estimate.bytes))} of records"
    if environments:
        size = decimal(round(environments * ENVIRONMENT_BYTES))
        disk += f", and about {size} for {counted(environments, 'environment')} (a guess)"
    return [time, disk]


def _samples(model: Mapping[str, Any]) -> int:
    """That a run trains in all its epochs; 0 if it trains on all samples of its data."""
    return model["epochs"] * (model.get("train_samples") or 0)


def changes_by_run(plan: Plan, results: Path, root: Path) -> list[str]:
    """The changes since the last measurement of each run that will be measured again. Runs with
    the same changes share an entry."""
    local_machine = machine.fingerprint()["machine"]
    new = 0
    names_by_changes: dict[tuple[str, ...], list[str]] = {}
    for run in _to_do(plan, results):
        files = record_files(results, local_machine, run.name)
        if not files:
            new += 1
            continue
        with suppress(RecordError):
            record = read_record(files[-1])
            unchanged = ("nothing: its record is void or not adopted",)
            before, after = (full_identity(r.config, r.identity) for r in (record.run, run))
            changes = tuple(changed(before, after)) or unchanged
            if LOCK in changes:
                changes += tuple(_changed_packages(run, record, root))
            if CODE in changes:
                edited = [f"  {file} was edited" for file in _edited(run, record.finished)]
                changes += tuple(edited or ["  the code of rnnbench itself"])
            names_by_changes.setdefault(changes, []).append(run.name)
    text = [f"{counted(new, 'run')} without a record"] if new else []
    for changes, names in names_by_changes.items():
        text.append(f"{counted(len(names), 'run')}, such as {names[0]}:")
        text += [f"  {change}" for change in changes]
    return text or ["nothing to do"]


def _changed_packages(run: Run, record: Record, root: Path) -> list[str]:
    """The versions that differ between the build that a `record` was made with and that of today.
    A record has the packages, but no version of Python."""
    try:
        today = versions(run.config["build"], root)
    except RnnbenchError as error:
        return [f"  its versions cannot be read: {error}"]
    packages = {}
    for text in record.environment.get("packages") or ():
        package, _, version = text.partition("==")
        packages[package] = version
    changes = []
    for name, version in today["distributions"].items():
        before = packages.get(name.lower())
        if packages and before != version:
            changes.append(f"  {name}: {before or 'none'} → {version}")
    if packages and not changes:
        changes.append(
            f"  the packages are the same, so its Python changed: today {today['python']}"
        )
    return changes


def _edited(run: Run, since: str) -> list[Path]:
    """The Python files of users that `run` uses and that were edited later."""
    moment = timestamps.read(since).timestamp()
    files = sorted(user_files(run.config))
    return [file for file in files if file.is_file() and file.stat().st_mtime > moment]


def changed(before: Mapping[str, Any], after: Mapping[str, Any], prefix: str = "") -> list[str]:
    """The keys in which two identities differ, such as ``model.epochs: 5 → 9``. Values of digests
    are left out."""
    changes = []
    for key in dict.fromkeys([*before, *after]):
        old = before.get(key)
        new = after.get(key)
        name = f"{prefix}{key}".removeprefix("config.")
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            changes += changed(old, new, f"{prefix}{key}.")
        elif old != new:
            texts = [value for value in (old, new) if isinstance(value, str)]
            if any(map(DIGEST.fullmatch, texts)):
                changes.append(f"{name} changed")
            else:
                changes.append(f"{name}: {old!r} → {new!r}")
    return changes


def _to_do(plan: Plan, root: Path) -> list[Run]:
    """The planned runs that will be measured. `root`: the results folder."""
    results, _ = results_in(root / plan.site / plan.experiment.name)
    rule = msgspec.to_builtins(plan.experiment.repeats)
    return unfinished(plan.runs.values(), results, root, rule)


def _elsewhere(plan: Plan, results: Path, here: str) -> list[FinishedRun]:
    """The newest records of the machine `here` of runs that are not in the plan."""
    others = [path for path in record_files(results, here) if path.parent.name not in plan.runs]
    return _finished(sorted(others, key=lambda path: path.name, reverse=True)[:MAX_RECORDS])


def _finished(files: Sequence[Path]) -> list[FinishedRun]:
    records, _ = readable(files, read_record)
    return finished(records)
