"""Compares how long the tests of two checkouts take, side by side.

    .venv/bin/python benchmarks/suite.py BEFORE AFTER [--command "make test"] [--times 3]
    .venv/bin/python benchmarks/suite.py --small

Runs the command in each of the two folders in turn, `times` times, and prints the wall seconds, the
CPU seconds of all processes that were waited for, and their ratios: medians of the ratios of each
repetition. Below are the seconds of each tier, from checkouts whose `tests/durations.py` records
them. Both need their own environment, installed before. A command that fails is an error.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "src")]

from benchmarks import where  # noqa: E402
from benchmarks.small import add_small  # noqa: E402
from rnnbench.running.worker import revision  # noqa: E402

ROOT = Path(__file__).parents[1]
SMALL = [sys.executable, "-m", "pytest", "-q", "tests/docs/test_docs_are_plain.py"]
WHOLE = "all"


@dataclass
class Spent:
    wall: float
    cpu: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("checkouts", type=Path, nargs="*", metavar="CHECKOUT")
    parser.add_argument("--command", type=shlex.split, default=["make", "test"])
    parser.add_argument("--times", type=int, default=3)
    add_small(parser)
    options = parser.parse_args()
    if options.small:
        options.checkouts, options.command, options.times = [ROOT, ROOT], SMALL, 1
    if len(options.checkouts) != 2:
        parser.error("name two checkouts")
    print(where.heading())
    for name, checkout in zip(("before", "after"), options.checkouts, strict=True):
        print(f"{name}: commit {revision(checkout)}", flush=True)
    before, after = [], []
    for _ in range(options.times):
        for checkout, found in zip(options.checkouts, (before, after), strict=True):
            found.append(spent_by(options.command, checkout))
    report(before, after)
    return 0


def spent_by(command: Sequence[str], checkout: Path) -> dict[str, Spent]:
    """Runs the `command`. Returns what it took: `WHOLE` and the tiers."""
    # Of a session of pytest that this one is part of.
    outside = {name: each for name, each in os.environ.items() if not name.startswith("PYTEST_")}
    with tempfile.TemporaryDirectory() as folder:
        durations, log = Path(folder, "durations.json"), Path(folder, "log")
        begin = time.perf_counter()
        with log.open("w") as out:
            process = subprocess.Popen(
                command,
                cwd=checkout,
                env={**outside, "RNNBENCH_DURATIONS": str(durations)},
                stdout=out,
                stderr=subprocess.STDOUT,
            )
            _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{checkout}: {shlex.join(command)}\n{log.read_text()[-4000:]}")
        spent = {WHOLE: Spent(wall, used.ru_utime + used.ru_stime)}
        if durations.exists():
            for tier, seconds in json.loads(durations.read_text())["tiers"].items():
                spent[tier] = Spent(seconds["end"] - seconds["begin"], seconds["cpu"])
    return spent


def report(before: Sequence[dict[str, Spent]], after: Sequence[dict[str, Spent]]) -> None:
    print("\n| tests | wall before, s | after, s | ratio | CPU before, s | after, s | ratio |")
    print("|:--|--:|--:|--:|--:|--:|--:|")
    for tier in dict.fromkeys(name for each in (*before, *after) for name in each):
        cells = [tier]
        for quantity in ("wall", "cpu"):
            sides = []
            for found in (before, after):
                sides.append([getattr(each[tier], quantity) for each in found if tier in each])
            for values in sides:
                cells.append(f"{statistics.median(values):.1f}" if values else "–")
            if all(sides):
                ratios = [second / first for first, second in zip(*sides, strict=True)]
                cells.append(f"{statistics.median(ratios):.2f}")
            else:
                cells.append("–")
        print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    sys.exit(main())
