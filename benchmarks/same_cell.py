"""A against A: one cell under two names, 20 times five repeats each, through the workflow.

    .venv/bin/python benchmarks/same_cell.py [--series 20] [--repeats 5] [--build tf_1_2]

One experiment, `alias=a,b` and a repeat for every pair: its blocks hold a and b in random order, so
five consecutive blocks are what an experiment of five repeats is. Each five are compared by the
report's own table. Printed: how many of the comparisons are shown as different (about one in twenty
should be), the spread between runs of the cell and between epochs of a run, and from the former how
many repeats show 2, 5 and 10 per cent. Stopped, the same command goes on.
`--folder` holds the experiment file; records are in results/, as always.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "src")]

from rnnbench.forecast import repeats_for  # noqa: E402
from rnnbench.records.record import Record, run_value  # noqa: E402
from rnnbench.records.store import records_of  # noqa: E402
from rnnbench.tables.frame import tidy  # noqa: E402
from rnnbench.tables.versus import versus  # noqa: E402

ROOT = Path(__file__).parents[1]
NAME = "same_cell"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--series", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--build", default="tf_1_2", help="the one that starts fastest by default")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--folder", type=Path, default=ROOT / "results/cache/same_cell")
    options = parser.parse_args()
    experiment = options.folder / "experiment"
    experiment.mkdir(parents=True, exist_ok=True)
    (experiment / f"{NAME}.yaml").write_text(
        f"title: A against A\ngrids: ['model=digits_rnn rnn=keras device=cpu_1 alias=a,b "
        f"build={options.build} model.epochs={options.epochs} "
        f"repeat=range({options.series * options.repeats})']\n"
    )
    began = time.monotonic()
    subprocess.run(
        [sys.executable, "-m", "snakemake", "--cores", "all", "--config", f"experiment={NAME}",
         f"conf={options.folder}"],
        cwd=ROOT, check=True,
    )  # fmt: skip
    print(f"the workflow took {time.monotonic() - began:.0f} s")
    os.chdir(ROOT)
    records, faults = records_of(
        Path("results"), sorted(Path("results").glob(f"*/{NAME}/*-s*-r*.json"))
    )
    for fault in faults:
        print(fault)
    report(records, options.repeats)
    return 0


def report(records: Sequence[Record], repeats: int) -> None:
    series: dict[int, list[Record]] = {}
    for record in records:
        series.setdefault(record.repeat // repeats, []).append(record)
    print("\n| series | runs | suspect | b / a | 95 % | |\n|--:|--:|--:|--:|:--|:--|")
    different = 0
    for number, members in sorted(series.items()):
        (row,) = versus(tidy(members), ["*-as_a-*"], ["*-as_b-*"]).to_dict("records")
        shown = not row["low"] <= 1 <= row["high"]
        different += shown
        suspect = sum(record.verdict.status == "suspect" for record in members)
        print(
            f"| {number + 1} | {row['runs_a']} + {row['runs_b']} | {suspect} | {row['ratio']:.4f} "
            f"| {row['low']:.4f}–{row['high']:.4f} | {'different' if shown else ''} |"
        )
    print(f"\nShown as different: {different} of {len(series)}.")
    usable = [r for r in records if r.verdict.status != "void" and len(r.epochs) > 1]
    logs = [math.log(run_value([e.seconds for e in record.epochs])) for record in usable]
    within = statistics.fmean(
        statistics.variance([math.log(epoch.seconds) for epoch in record.epochs])
        for record in usable
    )
    spread = statistics.stdev(logs)
    local = local_spread(usable)
    print(f"Run to run: {spread:.2%} (all runs), {local:.2%} (within a block; drift taken out).")
    print(f"Epoch to epoch in a run: {math.sqrt(within):.2%}.")
    for difference in (0.02, 0.05, 0.10):
        print(f"{difference:.0%} is shown by {repeats_for(difference, local)} repeats.")


def local_spread(records: Sequence[Record]) -> float:
    """The standard deviation of log run values from the differences of a and b in each block."""
    blocks: dict[int, dict[str | None, float]] = {}
    for record in records:
        seconds = run_value([epoch.seconds for epoch in record.epochs])
        blocks.setdefault(record.repeat, {})[record.alias] = math.log(seconds)
    squares = [(pair["a"] - pair["b"]) ** 2 for pair in blocks.values() if len(pair) == 2]
    return math.sqrt(statistics.fmean(squares) / 2)


if __name__ == "__main__":
    sys.exit(main())
