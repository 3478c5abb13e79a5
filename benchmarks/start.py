"""Measures the parts of a worker's start, from the command to the first training step.

    .venv/bin/python benchmarks/start.py [--runs 5] [GRID …] [--small]

The default grid is the digits' LSTM in the environment that runs this script. `interpreter, exit`
is the time from the record's start to the worker's first event plus that from its last event to the
record's end; `handshakes` is the time between phases; the others are phases. Prints medians. The
small form starts a worker that sleeps.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "src")]

from benchmarks import where  # noqa: E402
from benchmarks.small import add_small  # noqa: E402
from rnnbench.records import timestamps  # noqa: E402
from rnnbench.records.store import read_record  # noqa: E402
from tests.conftest import make_project  # noqa: E402
from tests.factory import phase_of  # noqa: E402

GRID = ("model=digits_rnn", "rnn=keras", "device=cpu_1", "model.epochs=1")
SMALL = ("model=fake", "build=fake", "rnn=fake_fast", "device=cpu_1", "model.epochs=1")
PHASES = ("import", "data", "build", "first_step", "warmup")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("grid", nargs="*", default=GRID)
    parser.add_argument("--runs", type=int, default=5)
    add_small(parser)
    options = parser.parse_args()
    if options.small:
        options.grid, options.runs = SMALL, 1
    heading = where.heading()
    with tempfile.TemporaryDirectory() as folder:
        project = make_project(Path(folder))
        project.forks = options.small
        grid = " ".join([*options.grid, f"repeat=range({options.runs})"])
        (project.conf / "experiment/start.yaml").write_text(f"title: x\ngrids: ['{grid}']\n")
        result = project.snakemake("--until", "rounds", experiment="start")
        if result.returncode:
            raise SystemExit(result.stdout[-1500:] + result.stderr[-1500:])
        rows = [parts(path) for path in project.records()]
    names = list(rows[0])
    values = {name: statistics.median(row[name] for row in rows) for name in names}
    print(heading)
    print("| runs | " + " | ".join(names) + " | all, s |")
    print("|--:|" + "--:|" * (len(names) + 1))
    cells = " | ".join(f"{value:.2f}" for value in values.values())
    print(f"| {len(rows)} | {cells} | {sum(values.values()):.2f} |")
    return 0


def parts(path: Path) -> dict[str, float]:
    """Part → seconds, until training begins."""
    record = read_record(path)
    lines = path.with_suffix(".events.jsonl").read_text().splitlines()
    hello = next(event for event in map(json.loads, lines) if event["event"] == "hello")
    phases = {name: phase_of(record, name).seconds for name in PHASES}
    train = phase_of(record, "train")
    total = (timestamps.read(record.finished) - timestamps.read(record.started)).total_seconds()
    inside = record.measured.wall_seconds
    between = train.start - hello["begin"] - sum(phases.values())
    return {"interpreter, exit": max(0.0, total - inside), **phases, "handshakes": between}


if __name__ == "__main__":
    sys.exit(main())
