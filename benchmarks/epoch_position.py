"""Estimates from records the effect of an epoch's position in its run on its time.

    .venv/bin/python benchmarks/epoch_position.py RESULTS [--experiment quick]

Model: log seconds of an epoch = run + position + noise, with each run as a block. The effect of a
position is the mean over the runs of its log seconds minus the mean of the run's other epochs after
the first, with Student's t-interval. The seconds of a run do not include its first epoch
(``records.record.run_seconds``), whose effect is shown nevertheless. Runs are grouped by their
number of epochs; void runs are left out. If nothing depends on the position, one in twenty
intervals excludes 0. Friedman's test (J. Am. Stat. Assoc. 32, 1937), which ranks the epochs within
each run, tests whether any position from the second on differs.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "src")]

from benchmarks import where  # noqa: E402
from rnnbench.records.rounds import records_of  # noqa: E402
from rnnbench.tables.stats import difference_interval  # noqa: E402

MIN_EPOCHS = 4  # Friedman's test needs three positions besides the first


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("results", type=Path, help="a results folder")
    parser.add_argument("--experiment", default="*", help="only this experiment (default: all)")
    options = parser.parse_args()
    records, faults = records_of(sorted(options.results.glob(f"*/{options.experiment}")))
    for fault in faults:
        print(fault, file=sys.stderr)
    runs: dict[int, list[list[float]]] = {}
    for record in records:
        if record.verdict.status != "void" and len(record.epochs) >= MIN_EPOCHS:
            seconds = [epoch.seconds for epoch in record.epochs]
            runs.setdefault(len(seconds), []).append(seconds)
    if not runs:
        raise SystemExit(f"{options.results}: no run has {MIN_EPOCHS} or more epochs.")
    print(where.heading())
    for _, members in sorted(runs.items()):
        print(table(members))
    return 0


def effects(runs: Sequence[Sequence[float]]) -> list[list[float]]:
    """For each position, the difference in each run: log seconds minus the mean of the run's other
    epochs after the first."""
    positions = []
    for position in range(len(runs[0])):
        differences = []
        for seconds in runs:
            logs = [math.log(value) for value in seconds]
            others = [value for at, value in enumerate(logs) if at not in (0, position)]
            differences.append(logs[position] - statistics.fmean(others))
        positions.append(differences)
    return positions


def table(runs: Sequence[Sequence[float]]) -> str:
    """The effects as Markdown. `runs`: the seconds of each epoch, equally many in each run."""
    from scipy.stats import friedmanchisquare

    lines = ["| position | effect | 95 % | |", "|--:|--:|:--|:--|"]
    for position, values in enumerate(effects(runs), start=1):
        interval = difference_interval(values)
        effect = math.expm1(interval.estimate)
        if interval.low is None or interval.high is None:
            lines.append(f"| {position} | {effect:+.2%} | one run | |")
            continue
        low, high = math.expm1(interval.low), math.expm1(interval.high)
        note = "" if low <= 0 <= high else "apart from 0"
        note += " (does not count)" if position == 1 else ""
        lines.append(f"| {position} | {effect:+.2%} | {low:+.2%} to {high:+.2%} | {note} |")
    text = f"\n{len(runs)} runs of {len(runs[0])} epochs."
    if len(runs) > 1:
        p = friedmanchisquare(*list(zip(*runs, strict=True))[1:]).pvalue
        text += f" Friedman's test over all positions from the second on: p = {p:.2g}."
    return "\n".join([*lines, text, ""])


if __name__ == "__main__":
    sys.exit(main())
