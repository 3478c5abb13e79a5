"""``rnnbench plan EXPERIMENT``: how many runs, how long, how much disk, before anything runs."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from rnnbench.cells.cell import cell_of
from rnnbench.errors import RecordError
from rnnbench.forecast import ENVIRONMENT_BYTES, Forecast, Past, forecast, repeats_for
from rnnbench.planning import Plan, Run, make_plan
from rnnbench.records.record import Record
from rnnbench.records.store import read_json, read_record, record_files
from rnnbench.running.measured import value_of
from rnnbench.running.progress import duration
from rnnworker import machine

DIFFERENCES = (0.02, 0.05, 0.10)
MOST_RECORDS = 400  # some 5 ms each to read


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="rnnbench plan", description=__doc__)
    parser.add_argument("experiment")
    parser.add_argument("overrides", nargs="*", help="Hydra overrides applied to every grid")
    parser.add_argument("--conf", action="append", default=[], type=Path, help="further choices")
    parser.add_argument("--site", help="a cluster's name; default: this machine")
    options = parser.parse_intermixed_args(list(arguments))
    root = Path.cwd()
    conf = [root / "conf", *options.conf]
    overrides = " ".join(options.overrides)
    plan = make_plan(options.experiment, conf, root, site=options.site, overrides=overrides)
    results = root / "results"
    left = [run.name for run in plan.runs.values() if not _is_done(run, plan, results)]
    found = forecast(left, _past(plan, results), lambda: _elsewhere(plan, results))
    for line in lines(plan, found, _environments(plan, root)):
        print(line)
    return 0


def lines(plan: Plan, found: Forecast, environments: int) -> list[str]:
    """What is printed."""
    runs = len(plan.runs)
    text = [
        f"{plan.experiment.name}: {runs} runs in {len(plan.rounds)} rounds, "
        f"{runs - found.left} done, {found.left} to do"
    ]
    if plan.skipped:
        text[0] += f" ({len(plan.skipped)} cells cannot run here: rnnbench cells says why)"
    basis = "from finished runs of the same cells"
    if found.guessed == found.left:
        basis = "a guess: no cell of it has a finished run here"
    elif found.guessed:
        basis = f"for {found.guessed} runs a guess, from the other cells' runs"
    text.append(
        f"time:  about {duration(found.seconds)} ({basis})" if found.left else "time:  none"
    )
    if plan.experiment.repeats:
        text[-1] += ", at most: repeats beyond the least are measured where they are needed"
    disk = f"disk:  about {_size(found.bytes)} of records"
    if environments:
        size = _size(environments * ENVIRONMENT_BYTES)
        disk += f", and about {size} for {environments} environments (a guess)"
    text.append(disk)
    known = f"measured, {found.freedom} degrees of freedom" if found.freedom else "a guess"
    if found.freedom and found.borrowed:
        known += ", on this machine's other cells too"
    text.append(f"run-to-run spread: {found.spread:.2%} ({known}); runs of each cell that show")
    for difference in DIFFERENCES:
        repeats = repeats_for(difference, found.spread)
        text.append(f"  {difference:4.0%}:  {repeats or 'more than 10,000'}")
    text.append("  (two cells, 95 % interval, in four of five experiments)")
    return text


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
