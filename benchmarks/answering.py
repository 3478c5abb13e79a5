"""What measuring adds to a call: turns of `rnnworker.serving.answering` beside a loop by hand,
for calls that do nothing. Goal: at most 2 % of a call of 50 µs, which is 1000 ns.

    python benchmarks/answering.py

The means of 20 ms are compared by their smallest values, so that a busy machine changes little.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "src")]

from benchmarks.small import add_small  # noqa: E402
from benchmarks.where import heading  # noqa: E402
from rnnworker.serving.answering import Server  # noqa: E402

CALL = 50_000  # ns
SECONDS = 0.02


def nothing(arrays: object) -> None:
    """The answer of a runtime that takes no time."""


class Idle(Server):
    """A server whose runtime is `nothing`."""

    def __init__(self) -> None:
        self.arrays = [(None, None)]
        self.unseen = 0

    def answer_of(self, case: int) -> Any:
        return nothing


def by_hand(calls: int) -> float:
    """Nanoseconds of a call in a loop that does nothing else."""
    begun = time.perf_counter_ns()
    for _ in range(calls):
        nothing(None)
    return (time.perf_counter_ns() - begun) / calls


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_small(parser)
    parser.add_argument("--turns", type=int, default=101)
    options = parser.parse_args()
    turns = 5 if options.small else options.turns
    server = Idle()
    measured = []
    bare = []
    for _ in range(turns):
        calls = server.turn(0, SECONDS, 0.001)["calls"]
        measured.append(statistics.fmean(calls))
        bare.append(by_hand(len(calls)))
    added = min(measured) - min(bare)
    print(heading())
    print(f"ns per call, {turns} turns: measured {min(measured):.0f}, by hand {min(bare):.0f}")
    print(f"added {added:.0f} ns: {100 * added / CALL:.2f} % of a call of 50 µs")


if __name__ == "__main__":
    main()
