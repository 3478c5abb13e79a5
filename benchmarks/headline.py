"""Simulates the false positives and the power of the report's headline.

    .venv/bin/python benchmarks/headline.py [TRIES | --small]

Simulates contests of configurations with equal times, one of which is the reference, and counts how
often the headline names a difference (``tables/contests.py``); likewise with one faster
configuration. For comparison, it also uses the intervals of the time table, which are valid only
one at a time. Deterministic for a given TRIES (default: 2,000).
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "src")]

from benchmarks import where  # noqa: E402
from benchmarks.small import add_small  # noqa: E402
from rnnbench.tables.effects import RunValue  # noqa: E402
from rnnbench.tables.ratios import Estimates  # noqa: E402

DRIFT = 0.02  # standard deviation of log seconds, common to the configurations of a block
SPREADS = {"all 2 %": (0.02, 0.02), "1 to 3 %": (0.01, 0.03), "1 to 3 %, one thrice": (0.01, 0.03)}


def contests(tries, count, repeats, low, high, gain=0.0, noisy=1.0, seed=0):
    """Log seconds, of shape `tries` × `count` × `repeats`. Configuration 0 is the reference;
    configuration 1 is faster by `gain` (log) and has `noisy` times the spread."""
    generator = np.random.default_rng(seed)
    spread = np.exp(generator.uniform(math.log(low), math.log(high), (tries, count, 1)))
    spread[:, 1] *= noisy
    logs = generator.normal(size=(tries, count, repeats)) * spread
    logs += generator.normal(size=(tries, 1, repeats)) * DRIFT
    logs[:, 1] -= gain
    return logs


def estimates_of(logs, in_turns=True, minutes=1):
    """The `Estimates` from log seconds (tries × configurations × repeats, NaN for missing runs).
    Each try is a machine, and configuration n is the key ``("m", "d", try, n)``. Repeats start
    every so many `minutes`."""
    runs = []
    for number, configuration, repeat in np.argwhere(~np.isnan(logs)).tolist():
        runs.append(
            RunValue(
                key=("m", "d", number, configuration),
                device=("m", "d", number),
                log=float(logs[number, configuration, repeat]),
                unit=f"{number}, {repeat}",
                machine=str(number),
                started=60.0 * minutes * repeat,
                in_turns=in_turns,
            )
        )
    return Estimates(runs)


def claims(logs, together=True):
    """Of each contest in `logs` (tries × configurations × blocks), whether the headline names a
    difference: between the fastest and the reference or, if the reference is fastest, between it
    and the runner-up."""
    estimates = estimates_of(logs, in_turns=False)
    comparisons = logs.shape[1] - 1 if together else 1
    for number, order in enumerate(np.argsort(logs.mean(axis=2), axis=1)):
        first, other = int(order[0]), int(order[1]) if order[0] == 0 else 0
        pair = [("m", "d", number, configuration) for configuration in (first, other)]
        yield estimates.ratio(*pair, comparisons).shown_different


def share(tries, count, repeats, low, high, together=True, **options):
    """The fraction of contests whose headline names a difference."""
    simulated = contests(tries, count, repeats, low, high, **options)
    return float(np.mean(list(claims(simulated, together))))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tries", type=int, nargs="?", default=2000)
    add_small(parser)
    options = parser.parse_args()
    tries = 20 if options.small else options.tries
    print(where.heading())
    print(f"{tries} contests each; % that name a difference: one by one, together")
    for repeats in (3, 5, 10):
        for count in (3, 8, 12):
            for name, (low, high) in SPREADS.items():
                noisy = 3.0 if "thrice" in name else 1.0
                separate, joint = (
                    100 * share(tries, count, repeats, low, high, together, noisy=noisy)
                    for together in (False, True)
                )
                print(f"equal, {repeats} repeats of {count} configurations, spread {name}: "
                      f"{separate:.1f}, {joint:.1f}", flush=True)  # fmt: skip
    for repeats in (3, 5):
        for count in (8, 12):
            for gain in (0.03, 0.05, 0.07, 0.10):
                separate, joint = (
                    100 * share(tries, count, repeats, 0.01, 0.03, together, gain=gain)
                    for together in (False, True)
                )
                print(f"one {gain:.0%} faster, {repeats} repeats of {count} configurations: "
                      f"{separate:.0f}, {joint:.0f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
