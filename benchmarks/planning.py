"""Compares the cost of planning with that of bare Snakemake with as many trivial jobs as runs.

    .venv/bin/python benchmarks/planning.py [--runs 10000] [--finished 1000] [--members 4]
    .venv/bin/python benchmarks/planning.py --small

Three rows: a dry run of a grid without finished runs, `rnnbench grid`, and a start with nothing to
do; all print to a file. The target is the ratio to `trivial`, whose jobs have one output each
and nothing else; `same graph` has the jobs, inputs and outputs of the experiment (`bare.py`). A job
of the experiment is a batch of rounds of `members` runs each (`quick` has four). The three commands
are measured alternately, `times` times: wall seconds and peak memory are medians; a ratio is the
median of the single ratios, with the smallest and the largest.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "src")]

from benchmarks import bare, where  # noqa: E402
from benchmarks.small import add_small  # noqa: E402
from rnnbench import workflow  # noqa: E402
from rnnbench.planning.plan import Plan, write_plan  # noqa: E402
from rnnbench.planning.planner import make_plan  # noqa: E402
from rnnbench.records import report_files  # noqa: E402
from rnnbench.records.rounds import Result, results_of, write_results  # noqa: E402
from rnnbench.records.store import write_record  # noqa: E402
from tests.conftest import Project, make_project  # noqa: E402
from tests.factory import make_record, replace  # noqa: E402

GRID = (
    "model=fake build=fake rnn=fake_fast,fake_slow rnn.fake.samples=range(1,{}) device=cpu_1"
    " model.batch=range(1,11) repeat=range({})"
)


class Command(NamedTuple):
    arguments: Sequence[str]
    folder: Path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--finished", type=int, default=1_000)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--members", type=int, choices=(2, 4, 8), default=4)
    add_small(parser)
    options = parser.parse_args()
    if options.small:
        options.runs, options.finished, options.times, options.members = 40, 20, 1, 2
    print(where.heading())
    print(
        "| what | runs | rnnbench, s | trivial, s | ratio | same graph, s | ratio | "
        "rnnbench, MiB | trivial, MiB | same graph, MiB |\n|---|" + "--:|" * 9
    )
    with tempfile.TemporaryDirectory() as folder:
        dry(Path(folder), options.runs, options.times, options.members)
        nothing_to_do(Path(folder), options.finished, options.times, options.members)
    return 0


def dry(folder: Path, count: int, times: int, members: int) -> None:
    project = grid(folder / "dry", count, members)
    bare.trivial(folder / "trivial", count)
    bare.same_graph(folder / "same", *graph(project))
    dry_run = [*snakemake(), "-n", "--cores", "2"]
    experiment = Command([*project.command("-n", experiment="many")], project.folder)
    bare_ones = [Command(dry_run, folder / name) for name in ("trivial", "same")]
    row("`snakemake -n`", count, [experiment, *bare_ones], project, times)
    command = [sys.executable, "-m", "rnnbench", "grid", "many", "--conf", "own"]
    row("`rnnbench grid`", count, [Command(command, project.folder)], project, times)


def nothing_to_do(folder: Path, count: int, times: int, members: int) -> None:
    """Writes the records, rounds and other outputs of `count` finished runs and the outputs of
    the bare Snakefiles, then Snakemake's metadata with --touch, and measures a start."""
    project = grid(folder / "done", count, members)
    finish(project)
    outputs = {
        "trivial_done": bare.trivial(folder / "trivial_done", count),
        "same_done": bare.same_graph(folder / "same_done", *graph(project)),
    }
    for name, files in outputs.items():
        for path in (folder / name / file for file in files):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    commands = [
        Command(project.command(experiment="many"), project.folder),
        *(Command([*snakemake(), "--cores", "2"], folder / name) for name in outputs),
    ]
    for command in commands:
        touched = dataclasses.replace(project, folder=command.folder).run(
            [*command.arguments, "--touch"]
        )
        if touched.returncode:
            raise SystemExit(touched.stdout + touched.stderr)
    row("nothing to do", count, commands, project, times, "Nothing to be done")


def grid(folder: Path, count: int, members: int) -> Project:
    folder.mkdir()
    project = make_project(folder)
    text = GRID.format(1 + members // 2, max(1, count // (10 * members)))
    (project.conf / "experiment/many.yaml").write_text(f"title: many\ngrids: ['{text}']\n")
    return project


def planned(project: Project) -> Plan:
    return make_plan("many", [project.folder / "conf", project.conf], project.folder)


def graph(project: Project) -> tuple[int, int]:
    """The number of jobs that measure, and the number of those that are tracked together."""
    return len(planned(project).batches), 1


def finish(project: Project) -> None:
    root, plan = project.folder, planned(project)
    fetched = project.rnnbench("dataset", "digits")
    if fetched.returncode:
        raise SystemExit(fetched.stderr)
    job = workflow.Job(plan, root)
    write_plan(plan, root / "results")
    for number, batch in plan.batches.items():
        results: dict[str, Result] = {}
        for each in batch.rounds:
            records = []
            for run in each.runs:
                made = make_record(machine=plan.site, experiment="many", epochs=2)
                records.append(replace(made, run=run))
                write_record(root / "results", records[-1])
            write_results(root / job.round_file(each.name), results_of(records))
            results |= results_of(records)
        write_results(root / job.batch_file(number), results)
    report = root / job.report_folder
    files = [report_files.PAGE, report_files.MARKDOWN]
    files += map(report_files.table_file, report_files.TABLES)
    for path in [*job.tracked, *job.certificates, *(report / name for name in files)]:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()
    (root / job.figures).mkdir()
    (report / report_files.CARD).write_text(json.dumps({"files": files}))


def snakemake() -> Sequence[str]:
    return [sys.executable, "-m", "snakemake"]


def row(
    what: str,
    count: int,
    commands: Sequence[Command],
    project: Project,
    times: int,
    expected: str = "",
) -> None:
    """Measures the commands alternately and prints a row of the table. The first command is that of
    the experiment. Each must print the text `expected`."""
    rounds = [[timed(command, project, expected) for command in commands] for _ in range(times)]
    seconds = [statistics.median(each[i][0] for each in rounds) for i in range(len(commands))]
    memory = [statistics.median(each[i][1] for each in rounds) for i in range(len(commands))]
    cells = [f"{seconds[0]:.2f}"]
    for i in (1, 2):
        if i < len(commands):
            ratios = sorted(each[0][0] / each[i][0] for each in rounds)
            middle = statistics.median(ratios)
            cells += [f"{seconds[i]:.2f}", f"{middle:.2f} ({ratios[0]:.2f}–{ratios[-1]:.2f})"]
        else:
            cells += ["–", "–"]
    cells += [f"{memory[i] / 2**20:.0f}" if i < len(commands) else "–" for i in range(3)]
    print(f"| {what} | {count:,} | {' | '.join(cells)} |", flush=True)


def timed(command: Command, project: Project, expected: str = "") -> tuple[float, float]:
    """Wall seconds and peak bytes of a command, which must print the text `expected`."""
    with tempfile.TemporaryFile("w+") as out:
        start = time.perf_counter()
        process = subprocess.Popen(
            command.arguments,
            cwd=command.folder,
            env=project.environment,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        out.seek(0)
        printed = out.read()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0 or expected not in printed:
        line = " ".join(command.arguments)
        raise SystemExit(f"{line}: exit code {process.returncode}\n{printed[-2000:]}")
    return seconds, used.ru_maxrss * 1024


if __name__ == "__main__":
    sys.exit(main())
