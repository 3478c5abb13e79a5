"""Tests which differences rounds detect: none (A/A), and steps that take 2 and 10 % longer.

    .venv/bin/python benchmarks/rounds.py [--members 4] [--rounds 50] [--epochs 20] [--cell gru]
    .venv/bin/python benchmarks/rounds.py --small

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
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "src")]

from benchmarks import where  # noqa: E402
from benchmarks.experiment import ROOT, measure_experiment, this_project  # noqa: E402
from benchmarks.small import add_small  # noqa: E402
from rnnbench.records.record import Record, run_seconds  # noqa: E402
from rnnbench.tables.estimates import Measurements  # noqa: E402
from rnnbench.tables.frame import tidy  # noqa: E402
from rnnbench.tables.time import time as time_table  # noqa: E402
from tests.conftest import Project, make_project  # noqa: E402

SLOWER = {"a": 0.0, "b": 0.0, "slow2": 0.02, "slow10": 0.1, "c": 0.0}
REFERENCE = "a"
SLOWED = ROOT / "benchmarks/slowed"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--members", type=int, default=4, choices=range(3, 1 + len(SLOWER)))
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--cell", default="lstm")
    parser.add_argument("--folder", type=Path, default=ROOT / "results/cache/rounds")
    add_small(parser)
    options = parser.parse_args()
    print(where.heading(), flush=True)
    if not options.small:
        measure(options, this_project(options.folder), list(SLOWER)[: options.members])
        return 0
    options.rounds, options.epochs = 2, 2
    with tempfile.TemporaryDirectory() as folder:
        measure(options, make_project(Path(folder)), [REFERENCE, "slow2"], sizes=(2,))
    return 0


def measure(
    options: argparse.Namespace,
    project: Project,
    names: Sequence[str],
    sizes: Sequence[int] = (3, 5, 8),
) -> None:
    """Measures rounds of the members `names` and prints what series of so many (`sizes`) rounds
    show."""
    for name in names:
        write_choice(project.conf, name)
    text = (
        "title: A against A, and known differences\ngrids:\n"
        f"  - model=digits_rnn model.function={SLOWED}/digits_slowed.py:build"
        f" model.epochs={options.epochs} device=cpu_1 cell={options.cell} rnn={','.join(names)}"
        f" repeat=range({options.rounds})\n"
        "reference: {rnn: a}\n"
    )
    experiment = f"rounds_{len(names)}_{options.epochs}"
    experiment += "" if options.cell == "lstm" else f"_{options.cell}"
    records = measure_experiment(project, experiment, text)
    for count in range(min(3, len(names)), 1 + len(names)):
        how = "" if count == len(names) else f", from the turns of the first {count}"
        print(f"\n{options.members} members{how}:")
        report([record for record in records if record.run.choices["rnn"] in names[:count]], sizes)


def write_choice(folder: Path, name: str) -> None:
    (folder / "rnn").mkdir(parents=True, exist_ok=True)
    (folder / f"rnn/{name}.yaml").write_text(
        f"implementation: {SLOWED}/keras_slowed.py\n"
        f"kernels: [while]\noptions: {{slower: {SLOWER[name]}}}\n"
    )


def report(records: Sequence[Record], sizes: Sequence[int]) -> None:
    others = [name for name in SLOWER if name in members_of(records) and name != REFERENCE]
    print("\n| build | rounds in a series | series | shown as different | ratio, all | |")
    print("|:--|--:|--:|--:|--:|:--|")
    for rnn, size in itertools.product(others, sizes):
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
    times = [math.log(run_seconds([epoch.seconds for epoch in r.epochs])) for r in own]
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
