"""Compares the seconds per epoch of runs in turns with those of runs on their own.

    .venv/bin/python benchmarks/alone.py [--pairs 15 | --small]

One experiment measures `keras` in turns with `unrolled` and on its own, in batches of 16 and of 64
(two lengths of an epoch), interleaved by the plan. A pair has the same repeat number. An
interrupted benchmark continues with the same command. The small form measures sleeps.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "src")]

from benchmarks import where  # noqa: E402
from benchmarks.experiment import ROOT, measure_experiment, this_project  # noqa: E402
from benchmarks.small import add_small  # noqa: E402
from rnnbench.records.record import Record, run_seconds  # noqa: E402
from rnnbench.tables.stats import mean_interval  # noqa: E402
from tests.conftest import Project, make_project  # noqa: E402

BATCHES = (16, 64)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--folder", type=Path, default=ROOT / "results/cache/alone")
    add_small(parser)
    options = parser.parse_args()
    print(where.heading(), flush=True)
    if not options.small:
        grid = "model=digits_rnn device=cpu_1"
        measure(this_project(options.folder), grid, "keras", "unrolled", BATCHES, options.pairs)
        return 0
    grid = "model=fake build=fake device=cpu_1 model.epochs=2"
    with tempfile.TemporaryDirectory() as folder:
        project = make_project(Path(folder))
        measure(project, grid, "fake_fast", "fake_middle", BATCHES[:1], pairs=1)
    return 0


def measure(
    project: Project, grid: str, rnn: str, other: str, batches: Sequence[int], pairs: int
) -> None:
    """Measures `rnn` in turns with `other` and alone."""
    common = f"{grid} model.batch={','.join(map(str, batches))} repeat=range({pairs})"
    text = (
        "title: In turns or alone\ngrids:\n"
        f"  - {common} rnn={rnn},{other} measure.turns=true\n"
        f"  - {common} rnn={rnn} measure.turns=false\nreference: {{rnn: {rnn}}}\n"
    )
    report(measure_experiment(project, "alone", text, f"*-{rnn}-*"), batches)


def report(records: Sequence[Record], batches: Sequence[int]) -> None:
    print("\n| batch | pairs | in turns, s | on its own, s | in turns / on its own | 95 % |")
    print("|--:|--:|--:|--:|--:|:--|")
    for batch in batches:
        sides: dict[bool, dict[int, float]] = {True: {}, False: {}}
        for record in records:
            if record.run.config["model"]["batch"] == batch and record.verdict.status != "void":
                value = run_seconds([epoch.seconds for epoch in record.epochs])
                sides[record.run.config["measure"]["turns"]][record.run.repeat] = value
        common = sorted(sides[True].keys() & sides[False].keys())
        turns, alone = ([side[repeat] for repeat in common] for side in sides.values())
        ratio = mean_interval([a / b for a, b in zip(turns, alone, strict=True)])
        span = f"{ratio.low:.4f}–{ratio.high:.4f}" if ratio.low and ratio.high else "one pair"
        print(
            f"| {batch} | {len(common)} | {mean_interval(turns).estimate:.4f} "
            f"| {mean_interval(alone).estimate:.4f} | {ratio.estimate:.4f} | {span} |"
        )


if __name__ == "__main__":
    sys.exit(main())
