"""Measures the overhead of the workflow for short runs: time, and the controllers' CPU and memory.

    .venv/bin/python benchmarks/overhead.py [--runs 24] [--epochs 50 180 | --small]

Runs a grid whose runs sleep instead of training, in a new project for each number of epochs. It
prints the workflow's wall time, including report and tracking, divided by the sum of the wall times
of its workers, and the parts of the difference: creating MLflow's store (once per project),
tracking, report, controllers without their workers, and the rest, which is Snakemake. This process
also reads the CPU seconds and resident memory of the controllers from /proc, twenty times per
second, while their workers are timed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import psutil

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "src")]

from benchmarks import where  # noqa: E402
from benchmarks.small import add_small  # noqa: E402
from rnnbench.records.store import read_record  # noqa: E402
from tests.conftest import Project, make_project  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=24)
    parser.add_argument("--epoch-seconds", type=float, default=0.1)
    parser.add_argument("--epochs", type=int, nargs="+", default=[50, 180])
    add_small(parser)
    options = parser.parse_args()
    if options.small:
        options.runs, options.epochs = 1, [10]
    print(where.heading())
    print(
        "| runs | s per run | workflow, s | workers, s | ratio | tracking | report "
        "| controllers | Snakemake | controller CPU while timed | RSS, MiB |\n" + "|--:" * 11 + "|"
    )
    for epochs in options.epochs:
        cells = measure(options.runs, epochs, options.epoch_seconds)
        print(f"| {' | '.join(cells)} |", flush=True)
    return 0


def measure(runs: int, epochs: int, seconds: float) -> list[str]:
    """The cells of one row of the table."""
    with tempfile.TemporaryDirectory() as folder:
        project = make_project(Path(folder))
        write_grid(project, runs, epochs, seconds)
        wall, samples, spent = run(project)
        records = [read_record(path) for path in project.records()]
    workers = sum(record.measured.wall_seconds for record in records)
    timed = sum(p.seconds for r in records for p in r.phases if p.timed)
    share = cpu_while_timed(samples, records) / timed
    resident = max(sample[3] for sample in samples) / 2**20
    parts = [spent["track"], spent["report"], spent["rounds"] - workers]
    left = wall - sum(spent.values())
    return [
        f"{len(records)}",
        *(f"{value:.1f}" for value in (workers / len(records), wall, workers)),
        f"{wall / workers:.3f}",
        *(f"{value:.1f}" for value in (*parts, left)),
        f"{share:.2%} of a core",
        f"{resident:.0f}",
    ]


def write_grid(project: Project, runs: int, epochs: int, seconds: float) -> None:
    grid = (
        f"model=fake build=fake rnn=fake_fast device=cpu_1 model.epochs={epochs} "
        f"rnn.fake.epoch_seconds={seconds} repeat=range({runs})"
    )
    (project.conf / "experiment/short.yaml").write_text(f"title: short\ngrids: ['{grid}']\n")


def run(project: Project) -> tuple[float, list[tuple[float, int, float, int]], Counter[str]]:
    """Wall seconds; samples of the controllers: (monotonic time, pid, CPU seconds, resident bytes);
    and the seconds in each command of rnnbench, from when it was first seen to the last."""
    start = time.monotonic()
    with (project.folder / "out").open("wb") as out:
        project.environment["PYTHONUNBUFFERED"] = "1"
        process = subprocess.Popen(
            project.command(experiment="short"), cwd=project.folder, env=project.environment,
            stdout=out, stderr=out,
        )  # fmt: skip
    samples = []
    seen: dict[tuple[int, str], list[float]] = {}
    while process.poll() is None:
        for child in psutil.Process(process.pid).children(recursive=True):
            with suppress(psutil.Error):  # it has ended
                command = child.cmdline()
                if "rounds" in command:
                    cpu = child.cpu_times()
                    resident = child.memory_info().rss
                    samples.append((time.monotonic(), child.pid, cpu.user + cpu.system, resident))
                if command[1:3] == ["-m", "rnnbench"]:
                    seen.setdefault((child.pid, command[3]), []).append(time.monotonic())
        time.sleep(0.05)
    spent: Counter[str] = Counter()
    for (_, name), moments in seen.items():
        spent[name] += moments[-1] - moments[0]
    if process.returncode:
        raise SystemExit((project.folder / "out").read_text()[-2000:])
    return time.monotonic() - start, samples, spent


def cpu_while_timed(samples, records) -> float:
    """The growth of each controller's CPU time from the first to the last sample in a phase."""
    total = 0.0
    for record in records:
        for phase in (phase for phase in record.phases if phase.timed):
            inside = [s for s in samples if phase.start <= s[0] <= phase.end]
            for pid in {sample[1] for sample in inside}:
                cpu = [sample[2] for sample in inside if sample[1] == pid]
                total += max(cpu) - min(cpu)
    return total


if __name__ == "__main__":
    sys.exit(main())
