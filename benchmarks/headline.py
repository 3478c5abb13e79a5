"""How often does the headline name a difference where there is none, and how often one there is?

    .venv/bin/python benchmarks/headline.py [TRIES]

Simulates contests of equal cells, the reference among them, and looks at what the report says of
the fastest (``tables/fastest.py``); beside it what it would say with the intervals of the time
table, which hold one by one. Deterministic but for TRIES (2,000).
"""

from __future__ import annotations

import math
import sys

import numpy as np

from rnnbench.tables.pooling import POOLED_BELOW, spread_of
from rnnbench.tables.time import compare

DRIFT = 0.02  # of log seconds, common to the cells of a block
SPREADS = {"all 2 %": (0.02, 0.02), "1 to 3 %": (0.01, 0.03), "1 to 3 %, one thrice": (0.01, 0.03)}


def contests(tries, cells, repeats, low, high, gain=0.0, noisy=1.0, seed=0):
    """Log seconds of `tries` × `cells` × `repeats`; the reference is cell 0. Cell 1 is faster by
    `gain` (log) and `noisy` times as variable."""
    generator = np.random.default_rng(seed)
    spread = np.exp(generator.uniform(math.log(low), math.log(high), (tries, cells, 1)))
    spread[:, 1] *= noisy
    logs = generator.normal(size=(tries, cells, repeats)) * spread
    logs += generator.normal(size=(tries, 1, repeats)) * DRIFT
    logs[:, 1] -= gain
    return logs


def claims(logs, together=True):
    """Whether the headline of `logs` (cells × blocks) names a difference: the fastest's from the
    reference, or, where the reference is fastest, its lead over the next."""
    order = np.argsort(logs.mean(axis=1))
    first, other = int(order[0]), int(order[1]) if order[0] == 0 else 0
    blocks = np.arange(logs.shape[1])
    own, base = (alone(np.exp(logs[cell]), blocks) for cell in (first, other))
    pool = len(logs) > 2 and (together or logs.shape[1] < POOLED_BELOW)
    among = len(logs) - 1 if together else 1
    return compare(own, base, spread_of(logs) if pool else None, among).shown_different


def alone(seconds, blocks):
    """What `compare` takes, of runs that were measured alone."""
    count = len(seconds)
    return {
        "seconds": seconds,
        "sitting": blocks,
        "effect": np.full(count, np.nan),
        "companion": np.zeros(count, bool),
    }


def share(tries, cells, repeats, low, high, together=True, **how):
    """The share of contests whose headline names a difference."""
    made = contests(tries, cells, repeats, low, high, **how)
    return float(np.mean([claims(logs, together) for logs in made]))


def main():
    tries = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    print(f"{tries} contests each; % that name a difference: one by one, together")
    for repeats in (3, 5, 10):
        for cells in (3, 8, 12):
            for name, (low, high) in SPREADS.items():
                noisy = 3.0 if "thrice" in name else 1.0
                alone, both = (
                    100 * share(tries, cells, repeats, low, high, together, noisy=noisy)
                    for together in (False, True)
                )
                print(f"equal, {repeats} repeats of {cells} cells, spread {name}: "
                      f"{alone:.1f}, {both:.1f}", flush=True)  # fmt: skip
    for repeats in (3, 5):
        for cells in (8, 12):
            for gain in (0.03, 0.05, 0.07, 0.10):
                alone, both = (
                    100 * share(tries, cells, repeats, 0.01, 0.03, together, gain=gain)
                    for together in (False, True)
                )
                print(f"one {gain:.0%} faster, {repeats} repeats of {cells} cells: "
                      f"{alone:.0f}, {both:.0f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
