"""Estimate the runs, time, disk space and repeats that an experiment needs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from operator import attrgetter
from pathlib import Path

from rich.filesize import decimal

from rnnbench.builds.launcher import DISTRIBUTIONS, versions
from rnnbench.builds.pins import build_of, locked_versions, normal, pins_of
from rnnbench.commands.arguments import PLANNED, Arguments, command_parser, parse_experiment
from rnnbench.errors import ConfigError, RecordError, RnnbenchError
from rnnbench.grid.files import user_files
from rnnbench.grid.point import full_identity
from rnnbench.planning.finished import FinishedRun, finished
from rnnbench.planning.forecast import ENVIRONMENT_BYTES, Forecast, forecast, repeats_for
from rnnbench.planning.plan import Plan
from rnnbench.planning.planner import NothingToRun, make_plan
from rnnbench.records import timestamps
from rnnbench.records.predictions import prediction_file
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
    declared: Arguments = {
        "--site": {"help": "the name of a cluster (default: this machine)"},
        "--why": {
            "action": "store_true",
            "help": "print only what has changed for the runs that will be measured again",
        },
    }
    parser = command_parser(plan, PLANNED | declared)

    root = Path.cwd()
    options = parse_experiment(parser, arguments, root)

    name = options.experiment
    overrides = " ".join(options.overrides)
    try:
        made = make_plan(
            name,
            options.conf,
            root,
            site=options.site,
            overrides=overrides,
        )
    except NothingToRun as error:
        print(error)
        return 0

    results = root / "results"
    if made.predictions:
        if options.why:
            raise ConfigError(
                "predictions have no --why.",
                where=made.experiment.name,
                remedy="leave it out.",
            )
        folder = results / made.site / made.experiment.name
        count = 0
        for name in made.predictions:
            count += prediction_file(folder, name).exists()
        total = counted(len(made.predictions), "prediction")
        print(f"{made.experiment.name}: {total}, {count} measured")
        return 0
    if options.why:
        text = changes_by_run(made, results, root)
    else:
        text = estimate_lines(
            made,
            results,
            root,
            words=f"{name} {overrides}".strip(),
        )
    print("\n".join(text))
    return 0


def estimate_lines(
    plan: Plan,
    results: Path,
    root: Path,
    words: str,
) -> list[str]:
    """What the plan needs, as lines to print.

    - `results`: the results folder.
    - `root`: the project's folder, which has the environments.
    - `words`: those of the command.
    """
    estimate = _estimate(plan, results)
    left = estimate.left
    done = len(plan.runs) - left
    runs = counted(len(plan.runs), "run")
    rounds = counted(len(plan.rounds), "round")
    line = f"{plan.experiment.name}: {runs} in {rounds}, {done} done, {left} to do"
    if plan.skipped:
        points = counted(len(plan.skipped), "grid point")
        line += f" ({points} cannot run here: `rnnbench grid {words}` says why)"
    text = [line]
    if left:
        text += _cost_lines(plan, estimate, root)

    basis = "a guess"
    if estimate.degrees_of_freedom:
        basis = f"measured, {estimate.degrees_of_freedom:.0f} degrees of freedom"
        if estimate.borrowed:
            basis += ", including other configurations on this machine"
    text.append(f"spread between runs: {estimate.spread:.2%} ({basis})")

    text.append("repeats of each configuration needed to show that it takes longer by")
    for difference in DIFFERENCES:
        repeats = repeats_for(difference, estimate.spread)
        text.append(f"  {difference:4.0%}:  {repeats or 'more than 10,000'}")
    text.append("  (compared with another one; 95 % interval, power 80 %)")

    if left:
        for warning in host_check.warnings(host_check.read_host_facts()):
            text.append(f"now:   {warning}")
    return text


def _estimate(plan: Plan, results: Path) -> Forecast:
    """What the runs to do will need, from the records of this machine.

    `results`: the results folder.
    """
    samples = {}
    for run in _to_do(plan, results):
        model = run.config["model"]
        # 0 if it trains on all samples of its data
        samples[run.name] = model["epochs"] * (model.get("train_samples") or 0)

    here = machine.fingerprint()["machine"]
    newest = []
    sizes = []
    for run in plan.runs.values():
        for file in record_files(results, here, run.name)[-1:]:
            newest.append(file)
            size = 0
            for part in file.parent.glob(f"{file.stem}.*"):
                size += part.stat().st_size
            sizes.append(size)

    def elsewhere() -> list[FinishedRun]:
        """The newest records of runs that are not in the plan."""
        files = record_files(results, here)
        others = [file for file in files if file.parent.name not in plan.runs]
        others.sort(key=attrgetter("name"), reverse=True)
        return _finished(others[:MAX_RECORDS])

    optional: set[str] = set()
    budget = None
    rule = plan.experiment.repeats
    if rule:
        optional = {name for name in samples if plan.runs[name].repeat >= rule.least}
        budget = rule.budget_s
    return forecast(
        samples,
        _finished(newest),
        elsewhere,
        sizes,
        optional,
        budget,
    )


def _finished(files: Sequence[Path]) -> list[FinishedRun]:
    """What is kept of the records that can be read."""
    records, _ = readable(files, read_record)
    return finished(records)


def _cost_lines(plan: Plan, estimate: Forecast, root: Path) -> list[str]:
    """The time and the disk space that the runs to do need, as lines to print.

    `root`: the project's folder, which has the environments.
    """
    basis = "from finished runs of the same configurations"
    about = "about"
    if estimate.guessed == estimate.left:
        basis = "a guess: none of the configurations has a finished run here"
        if any(run.config["model"].get("train_samples", 0) is None for run in plan.runs.values()):
            about = "at least"
            basis += ", and they train on all samples"
    elif estimate.guessed:
        runs = counted(estimate.guessed, "run")
        basis = f"for {runs} a guess, from the runs of other configurations"

    time = f"time:  {about} {duration(estimate.seconds)} ({basis})"
    if plan.experiment.repeats and about == "about":
        time += ", at most: repeats beyond the minimum are measured only if needed"

    disk = f"disk:  about {decimal(round(estimate.bytes))} of records"
    lacking = 0
    for pins in plan.environments.values():
        if not pins.folder(root).exists():
            lacking += 1
    if lacking:
        size = decimal(lacking * ENVIRONMENT_BYTES)
        disk += f", and about {size} for {counted(lacking, 'environment')} (a guess)"
    return [time, disk]


def changes_by_run(plan: Plan, results: Path, root: Path) -> list[str]:
    """The changes since the last measurement of each run that will be measured again, as lines to
    print. Runs with the same changes share an entry.

    - `results`: the results folder.
    - `root`: the project's folder.
    """
    local_machine = machine.fingerprint()["machine"]
    new = 0
    names_by_changes: dict[str, list[str]] = {}
    for run in _to_do(plan, results):
        files = record_files(results, local_machine, run.name)
        if not files:
            new += 1
            continue

        try:
            changes = _changes(run, read_record(files[-1]), root)
        except RecordError as error:
            changes = [str(error)]
        names_by_changes.setdefault("\n  ".join(changes), []).append(run.name)

    text = []
    if new:
        text.append(f"{counted(new, 'run')} without a record")
    for changes_of_all, names in names_by_changes.items():
        runs = counted(len(names), "run")
        text.append(f"{runs}, such as {names[0]}:\n  {changes_of_all}")
    return text or ["nothing to do"]


def _changes(run: Run, record: Record, root: Path) -> list[str]:
    """What changed for a `run` since its `record`, with the packages or files behind it."""
    before = full_identity(record.run.config, record.run.identity)
    changes = changed(before, full_identity(run.config, run.identity))
    if not changes:
        return ["nothing: its record is void or not adopted"]

    if LOCK in changes:
        changes += _changed_packages(run, record, root)

    if CODE in changes:
        moment = timestamps.read(record.finished).timestamp()
        edited = []
        for file in sorted(user_files(run.config)):
            if file.is_file() and file.stat().st_mtime > moment:
                edited.append(f"  {file} was edited")
        changes += edited or ["  the code of rnnbench itself"]
    return changes


def _changed_packages(run: Run, record: Record, root: Path) -> list[str]:
    """The versions that differ between the build that a `record` was made with and that of today:
    of all packages of a lock, and of the `DISTRIBUTIONS` of any other build. A record has the
    packages, but no version of Python."""
    try:
        build = build_of(run.config["build"])
        today = versions(build, root)
        pins = pins_of(build, root)
    except RnnbenchError as error:
        return [f"  its versions cannot be read: {error}"]

    packages = {}
    for text in record.environment.get("packages") or ():
        package, _, version = text.partition("==")
        packages[normal(package)] = version
    if not packages:
        return []

    if pins:
        what = "Python, wheel or hashes"
        installed = locked_versions(pins)
        names = packages.keys() | installed
    else:
        what = "Python"
        installed = {normal(name): version for name, version in today.distributions.items()}
        names = set(map(normal, DISTRIBUTIONS))

    changes = []
    for name in sorted(names):
        before = packages.get(name)
        after = installed.get(name)
        if before != after:
            changes.append(f"  {name}: {before or 'none'} → {after or 'none'}")
    if not changes:
        python = today.python
        changes.append(f"  the packages are the same, so its {what} changed: today {python}")
    return changes


def changed(
    before: Mapping[str, object], after: Mapping[str, object], prefix: str = ""
) -> list[str]:
    """The keys in which two identities differ, such as ``model.epochs: 5 → 9``.

    `prefix`: the keys above, each with a dot. Values of digests are left out.
    """
    changes = []
    for key in {**before, **after}:
        old = before.get(key)
        new = after.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            changes += changed(old, new, f"{prefix}{key}.")
            continue
        if old == new:
            continue

        name = f"{prefix}{key}".removeprefix("config.")
        if DIGEST.fullmatch(str(old)) or DIGEST.fullmatch(str(new)):
            changes.append(f"{name} changed")
        else:
            changes.append(f"{name}: {old!r} → {new!r}")
    return changes


def _to_do(plan: Plan, root: Path) -> list[Run]:
    """The planned runs that will be measured. `root`: the results folder."""
    known, _ = results_in(root / plan.site / plan.experiment.name)
    return unfinished(
        plan.runs.values(),
        known,
        root,
        plan.experiment.repeats,
    )
