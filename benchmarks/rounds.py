"""Tests which differences rounds detect: none (A/A), and steps that take 2 and 10 % longer.

    .venv/bin/python benchmarks/rounds.py [--members 4] [--rounds 50] [--epochs 20] [--cell gru]

One experiment, measured by the workflow, has two to five implementations that are the same layer:
`a`, `b` and `c` train unchanged; in `slow2` and `slow10` each step takes 2 and 10 % longer, spent
in a loop. A series of three (five, eight) consecutive rounds corresponds to an experiment with as
many repeats; the report's time table compares its runs. The same rounds are also compared as
if they had fewer members, from the turns of the first ones. An interrupted benchmark continues with
the same command.
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
from rnnbench.tables.estimates import Measurements  # noqa: E402
from rnnbench.tables.frame import tidy  # noqa: E402
from rnnbench.tables.time import time as time_table  # noqa: E402

SLOWER = {"a": 0.0, "b": 0.0, "slow2": 0.02, "slow10": 0.1, "c": 0.0}
REFERENCE = "a"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--members", type=int, default=4, choices=range(3, 1 + len(SLOWER)))
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--cell", default="lstm")
    parser.add_argument("--folder", type=Path, default=ROOT / "results/cache/rounds")
    options = parser.parse_args()
    names = list(SLOWER)[: options.members]
    write_choices(options.folder)
    text = (
        "title: A against A, and known differences\ngrids:\n"
        f"  - model=digits_rnn model.function={ROOT}/benchmarks/slowed/digits_slowed.py:build"
        f" model.epochs={options.epochs} device=cpu_1 cell={options.cell} rnn={','.join(names)}"
        f" repeat=range({options.rounds})\n"
        "reference: {rnn: a}\n"
    )
    name = f"rounds_{options.members}_{options.epochs}"
    name += "" if options.cell == "lstm" else f"_{options.cell}"
    records = measure_experiment(name, options.folder, text)
    for count in range(3, options.members + 1):
        how = "" if count == options.members else f", from the turns of the first {count}"
        print(f"\n{options.members} members{how}:")
        report([record for record in records if record.run.choices["rnn"] in names[:count]])
    return 0


def write_choices(folder: Path) -> None:
    (folder / "rnn").mkdir(parents=True, exist_ok=True)
    for name, share in SLOWER.items():
        (folder / f"rnn/{name}.yaml").write_text(
            f"implementation: keras\nkernels: [while]\nslower: {share}\n"
        )


def report(records: Sequence[Record]) -> None:
    others = [name for name in SLOWER if name in members_of(records) and name != REFERENCE]
    print("\n| build | rounds in a series | series | shown as different | ratio, all | |")
    print("|:--|--:|--:|--:|--:|:--|")
    for rnn, size in itertools.product(others, (3, 5, 8)):
        shown, halves = [], []
        for members in series(records, size):
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
    for rnn in others:
        logs = [math.log(row_of(members, rnn)["speedup"]) for members in series(records, 1)]
        print(f"log ratio a / {rnn}, round to round: {statistics.stdev(logs):.2%}")
    own = [
        record for record in records
        if record.run.choices["rnn"] == REFERENCE and record.verdict.status != "void"
    ]  # fmt: skip
    times = [math.log(run_value([epoch.seconds for epoch in r.epochs])) for r in own]
    print(f"seconds of {REFERENCE}, round to round: {statistics.stdev(times):.2%}")
    suspect = sum(record.verdict.status == "suspect" for record in records)
    print(f"{len(records)} runs, {suspect} of them suspect")


def members_of(records: Sequence[Record]) -> set[str]:
    return {record.run.choices["rnn"] for record in records}


def row_of(records: Sequence[Record], rnn: str) -> dict:
    table = time_table(Measurements(tidy(records), {"rnn": REFERENCE}))
    return table.set_index("rnn").loc[rnn].to_dict()


def series(records: Sequence[Record], size: int) -> list[list[Record]]:
    """The records of each complete series of `size` consecutive rounds."""
    by_series: dict[int, list[Record]] = {}
    for record in records:
        by_series.setdefault(record.run.repeat // size, []).append(record)
    complete = size * len(members_of(records))
    return [members for _, members in sorted(by_series.items()) if len(members) == complete]


if __name__ == "__main__":
    sys.exit(main())
