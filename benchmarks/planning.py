"""What planning costs beside bare Snakemake with the same number of trivial jobs.

    .venv/bin/python benchmarks/planning.py [--runs 10000] [--finished 1000] [--times 3]

Both print to /dev/null; the median of `times` alternating measurements of wall seconds counts,
and the peak memory of each. Three rows: a dry run of a grid nobody has run, `rnnbench cells`, and
a real start with nothing to do.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "src")]

from benchmarks import bare  # noqa: E402
from rnnbench import workflow  # noqa: E402
from rnnbench.planning import make_plan, write_plan  # noqa: E402
from rnnbench.records.store import pointer_to, write_json  # noqa: E402
from tests.conftest import Project, make_project  # noqa: E402
from tests.factory import make_record  # noqa: E402

GRID = "model=fake build=fake rnn=fake_fast,fake_slow device=cpu_1 model.batch={} repeat={}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--finished", type=int, default=1_000)
    parser.add_argument("--times", type=int, default=3)
    options = parser.parse_args()
    print("| what | runs | rnnbench, s | bare, s | ratio | rnnbench, MiB | bare, MiB |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as folder:
        dry(Path(folder), options.runs, options.times)
        nothing_to_do(Path(folder), options.finished, options.times)
    return 0


def dry(folder: Path, count: int, times: int) -> None:
    project = grid(folder / "dry", count)
    bare.write(folder / "bare", count)
    ours = [*project.command("-n", experiment="many")]
    theirs = [*snakemake(), "-n", "--cores", "2"]
    row("`snakemake -n`", count, ours, theirs, project, folder / "bare", times)
    cells = [sys.executable, "-m", "rnnbench", "cells", "experiment=many", "--conf", "own"]
    row("`rnnbench cells`", count, cells, None, project, folder, times)


def nothing_to_do(folder: Path, count: int, times: int) -> None:
    """Records, pointers, tables and marks of `count` finished runs, made by hand, then
    Snakemake's own marks with --touch; of the bare one the files as it leaves them."""
    project = grid(folder / "done", count)
    finish(project)
    bare.write(folder / "bare_done", count)
    (folder / "bare_done/out").mkdir()
    for number in range(count):
        (folder / f"bare_done/out/{number}").touch()
    ours = project.command(experiment="many")
    theirs = [*snakemake(), "--cores", "2"]
    for command, where in ((ours, project.folder), (theirs, folder / "bare_done")):
        subprocess.run(
            [*command, "--touch"], cwd=where, env=project.environment, check=True, **QUIET
        )
    done = subprocess.run(
        ours, cwd=project.folder, env=project.environment, capture_output=True, text=True
    )
    assert "Nothing to be done" in done.stdout + done.stderr, done.stderr[-2000:]
    row("nothing to do", count, ours, theirs, project, folder / "bare_done", times)


def grid(folder: Path, count: int) -> Project:
    folder.mkdir()
    project = make_project(folder)
    sizes, repeats = 10, max(1, count // 20)
    text = GRID.format(f"range(1,{sizes + 1})", f"range({repeats})")
    (project.conf / "experiment/many.yaml").write_text(f"title: many\ngrids: ['{text}']\n")
    return project


def finish(project: Project) -> None:
    root = project.folder
    plan = make_plan("many", [root / "conf", project.conf], root)
    job = workflow.Job(plan, root)
    write_plan(plan, root / "results")
    for name, run in plan.runs.items():
        record = make_record(
            name=name, machine=plan.site, experiment="many", digest=run.digest, epochs=2
        )
        write_json(root / f"results/records/{record.key}.json", record.to_json())
        write_json(root / job.pointer(name), pointer_to(record))
    reports = [
        "report.html",
        "report.md",
        *(f"tables/{t}.csv" for t in ("accuracy", "time", "runs")),
    ]
    made = [job.store, *job.tracked, *job.certificates, "data/digits.npz"]
    for path in [*made, *(f"{job.report_folder}/{name}" for name in reports)]:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()


QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def snakemake() -> Sequence[str]:
    return [sys.executable, "-m", "snakemake"]


def row(what: str, count: int, ours, theirs, project: Project, bare_folder: Path, times: int):
    measured: dict[str, list[tuple[float, float]]] = {"ours": [], "theirs": []}
    for _ in range(times):
        measured["ours"].append(timed(ours, project.folder, project.environment))
        if theirs:
            measured["theirs"].append(timed(theirs, bare_folder, project.environment))
    seconds = {
        who: statistics.median(s for s, _ in m) if m else None for who, m in measured.items()
    }
    memory = {who: max(b for _, b in m) / 2**20 if m else None for who, m in measured.items()}
    one, other = seconds["ours"], seconds["theirs"]
    ratio = f"{one / other:.2f}" if other else "–"
    words = f"{other:.2f}" if other else "–"
    bytes_ = f"{memory['theirs']:.0f}" if other else "–"
    print(
        f"| {what} | {count:,} | {one:.2f} | {words} | {ratio} | {memory['ours']:.0f} | {bytes_} |",
        flush=True,
    )


def timed(command: Sequence[str], folder: Path, environment) -> tuple[float, float]:
    """Wall seconds and peak bytes of a command."""
    start = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, env=environment, **QUIET)
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"exit code {process.returncode}: {' '.join(command)}")
    return seconds, used.ru_maxrss * 1024


if __name__ == "__main__":
    sys.exit(main())
