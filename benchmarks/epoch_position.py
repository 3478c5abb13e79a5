"""Does an epoch's place in its run have an effect on its time? From records alone.

    .venv/bin/python benchmarks/epoch_position.py RESULTS [--experiment quick]

Model: log seconds of an epoch = its run + its position + noise, each run a block. The effect of a
position is the mean, over the runs, of its log seconds less the mean of the run's other epochs
after the first, with Student's t-interval on the runs. A run does not count with its first epoch
(``records.record.run_value``), whose effect is shown beside the others'. Runs are grouped by how
many epochs they have; void ones are left out. Where nothing depends on the position, one of twenty
intervals leaves out 0; whether any position from the second on differs is Friedman's test (J. Am.
Stat. Assoc. 32, 1937), which ranks the epochs within each run.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from rnnbench.records.store import records_of
from rnnbench.tables.stats import difference_interval

LEAST_EPOCHS = 4  # Friedman's test compares three or more, and the first is not among them


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("results", type=Path, help="a results folder")
    parser.add_argument("--experiment", default="*", help="of this one only")
    options = parser.parse_args()
    pointers = sorted(options.results.glob(f"*/{options.experiment}/*-s*-r*.json"))
    records, faults = records_of(options.results, pointers)
    for fault in faults:
        print(fault, file=sys.stderr)
    runs: dict[int, list[list[float]]] = {}
    for record in records:
        if record.verdict.status != "void" and len(record.epochs) >= LEAST_EPOCHS:
            seconds = [epoch.seconds for epoch in record.epochs]
            runs.setdefault(len(seconds), []).append(seconds)
    if not runs:
        raise SystemExit(f"{options.results}: no run with {LEAST_EPOCHS} epochs or more.")
    for _, members in sorted(runs.items()):
        print(table(members))
    return 0


def effects(runs: Sequence[Sequence[float]]) -> list[list[float]]:
    """For each position, what each run has: log seconds less the mean of the run's others after
    the first."""
    found = []
    for position in range(len(runs[0])):
        own = []
        for seconds in runs:
            logs = [math.log(one) for one in seconds]
            others = [one for at, one in enumerate(logs) if at not in (0, position)]
            own.append(logs[position] - statistics.fmean(others))
        found.append(own)
    return found


def table(runs: Sequence[Sequence[float]]) -> str:
    """`runs`: seconds of each epoch, as many in each run."""
    from scipy.stats import friedmanchisquare

    lines = ["| position | effect | 95 % | |", "|--:|--:|:--|:--|"]
    for position, values in enumerate(effects(runs), start=1):
        found = difference_interval(values)
        if found.low is None or found.high is None:
            lines.append(f"| {position} | {math.expm1(found.estimate):+.2%} | one run | |")
            continue
        low, high = math.expm1(found.low), math.expm1(found.high)
        apart = "" if low <= 0 <= high else "apart from 0"
        apart += " (does not count)" if position == 1 else ""
        effect = math.expm1(found.estimate)
        lines.append(f"| {position} | {effect:+.2%} | {low:+.2%} to {high:+.2%} | {apart} |")
    told = f"\n{len(runs)} runs of {len(runs[0])} epochs."
    if len(runs) > 1:
        chance = friedmanchisquare(*list(zip(*runs, strict=True))[1:]).pvalue
        told += f" Friedman's test over all positions from the second on: p = {chance:.2g}."
    return "\n".join([*lines, told, ""])


if __name__ == "__main__":
    sys.exit(main())
