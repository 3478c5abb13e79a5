"""Tests which differences rounds detect: none (A/A), and steps that take 2 and 10 % longer.

    .venv/bin/python benchmarks/rounds.py [--rounds 50] [--epochs 20]

One experiment, measured by the workflow, has four implementations that are the same layer: `a` and
`b` train unchanged; in `slow2` and `slow10` each step takes 2 and 10 % longer, spent in a loop. A
series of three (or five) consecutive rounds corresponds to an experiment with three (or five)
repeats; the report's time table compares its runs. An interrupted benchmark continues with the same
command.
"""

from __future__ import annotations

import argparse
import itertools
import math
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "src")]

from benchmarks.experiment import ROOT, measure_experiment  # noqa: E402
from rnnbench.records.record import Record, run_value  # noqa: E402
from rnnbench.tables.frame import tidy  # noqa: E402
from rnnbench.tables.time import time as time_table  # noqa: E402

SLOWER = {"a": 0.0, "b": 0.0, "slow2": 0.02, "slow10": 0.1}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--folder", type=Path, default=ROOT / "results/cache/rounds")
    options = parser.parse_args()
    write_choices(options.folder)
    text = (
        "title: A against A, and known differences\nprobe: false\ngrids:\n"
        f"  - model=digits_rnn model.function={ROOT}/benchmarks/slowed/digits_slowed.py:build"
        f" model.epochs={options.epochs} device=cpu_1 rnn={','.join(SLOWER)}"
        f" repeat=range({options.rounds})\n"
        "reference: {rnn: a}\n"
    )
    report(measure_experiment("rounds", options.folder, text))
    return 0


def write_choices(folder: Path) -> None:
    (folder / "rnn").mkdir(parents=True, exist_ok=True)
    for name, share in SLOWER.items():
        (folder / f"rnn/{name}.yaml").write_text(
            f"implementation: keras\nkernels: [while]\nslower: {share}\n"
        )


def report(records: Sequence[Record]) -> None:
    print("\n| build | rounds in a series | series | shown as different | ratio, all | |")
    print("|:--|--:|--:|--:|--:|:--|")
    for rnn, size in itertools.product(("b", "slow2", "slow10"), (3, 5)):
        shown, halves = [], []
        for _, members in series(records, size):
            row = row_of(members, rnn)
            shown.append(bool(row["shown_different"]))
            halves.append(math.log(row["speedup_high"] / row["speedup_low"]) / 2)
        if not shown:
            continue
        whole = row_of(records, rnn)
        print(
            f"| {rnn} | {size} | {len(shown)} | {sum(shown)} | {whole['speedup']:.4f} "
            f"({whole['speedup_low']:.4f}–{whole['speedup_high']:.4f}) "
            f"| intervals ± {statistics.median(halves):.2%} |"
        )
    print()
    for rnn in ("b", "slow2", "slow10"):
        logs = [math.log(row_of(members, rnn)["speedup"]) for _, members in series(records, 1)]
        print(f"log ratio a / {rnn}, round to round: {statistics.stdev(logs):.2%}")
    own = [r for r in records if r.run.choices["rnn"] == "a" and r.verdict.status != "void"]
    times = [math.log(run_value([epoch.seconds for epoch in r.epochs])) for r in own]
    print(f"seconds of a, round to round: {statistics.stdev(times):.2%}")
    suspect = sum(record.verdict.status == "suspect" for record in records)
    print(f"{len(records)} runs, {suspect} of them suspect")


def row_of(records: Sequence[Record], rnn: str) -> dict:
    table = time_table(tidy(records), {"rnn": "a"})
    return table.set_index("rnn").loc[rnn].to_dict()


def series(records: Sequence[Record], size: int) -> list[tuple[int, list[Record]]]:
    """The number and the records of each complete series of `size` consecutive rounds."""
    members: dict[int, list[Record]] = {}
    for record in records:
        members.setdefault(record.run.repeat // size, []).append(record)
    complete = size * len(SLOWER)
    return [pair for pair in sorted(members.items()) if len(pair[1]) == complete]


if __name__ == "__main__":
    sys.exit(main())
