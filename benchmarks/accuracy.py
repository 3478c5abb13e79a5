"""Simulates how often a report names a difference in accuracy that does not exist.

    .venv/bin/python benchmarks/accuracy.py [TRIES | --small]

In each simulated task, all configurations learn the same. A seed has a common level; rounding
errors make each configuration diverge from it independently, except those that compute the same
bits as the reference; and an accuracy is a multiple of 1 / validation samples. Prints the
percentage of tasks with a wrong "difference shown" (``tables/learning.py``; before: Student's t
alone) and with a wrong outlier, the largest over `SETTINGS`, and
how often true differences are shown. Deterministic for a given TRIES (default: 1,000).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "src")]

from benchmarks import where  # noqa: E402
from benchmarks.small import add_small  # noqa: E402
from rnnbench.tables.learning import accuracy_interval, distances  # noqa: E402
from rnnbench.tables.stats import difference_interval  # noqa: E402

SEEDS, COMPARISONS = (2, 3, 5, 10), (1, 3, 7, 13)
# Validation samples, level, standard deviations of the seeds and of the divergence, share of
# configurations that compute the same bits as the reference.
SETTINGS = [
    (samples, level, between_seeds, divergence, identical)
    for samples, level in ((359, 0.97), (359, 0.5), (2000, 0.99), (25000, 0.85))
    for between_seeds, divergence in ((0.005, 0.0005), (0.02, 0.002), (0.005, 0.005), (0.001, 0.01))
    for identical in (0, 0.8)
]


def tasks(tries, seeds, comparisons, setting, gain=0.0):
    """Accuracies, of shape `tries` × (1 + `comparisons`) × `seeds`. The reference is row 0; row 1
    differs by `gain`."""
    samples, level, between_seeds, divergence, identical = setting
    generator = np.random.default_rng(seeds * 100 + comparisons)
    shape = (tries, 1 + comparisons, seeds)
    own = generator.normal(size=shape) * divergence
    same = generator.random(shape[:2]) < identical
    own = np.where(same[:, :, None], own[:, :1], own)
    own[:, 1] += gain
    common = level + generator.normal(size=(tries, 1, seeds)) * between_seeds
    return np.round(np.clip(common + own, 0, 1) * samples) / samples


def is_shown(task, samples, before=False):
    """Whether a difference from the reference is shown in any comparison."""
    differences = (task[1:] - task[0]).tolist()
    intervals = [
        difference_interval(d) if before else accuracy_interval(d, samples, len(differences))
        for d in differences
    ]
    return any(i.low is not None and not i.low <= 0 <= i.high for i in intervals)


def has_outlier(task, samples):
    """Whether any configuration is reported as an outlier."""
    return any(row["apart"] for row in distances(task, samples) if row)


def share(found, tries, seeds, comparisons, setting, gain=0.0, **options):
    """The fraction of tasks in which `found` finds a difference."""
    simulated = tasks(tries, seeds, comparisons, setting, gain)
    return float(np.mean([found(task, setting[0], **options) for task in simulated]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tries", type=int, nargs="?", default=1000)
    add_small(parser)
    options = parser.parse_args()
    tries = 4 if options.small else options.tries
    print(where.heading())
    print(f"{tries} tasks each; largest % wrong: shown before, shown, outlier")
    for seeds in SEEDS:
        for comparisons in COMPARISONS:
            wrong = [
                max(100 * share(found, tries, seeds, comparisons, s, **how) for s in SETTINGS)
                for found, how in ((is_shown, {"before": True}), (is_shown, {}), (has_outlier, {}))
            ]
            print(seeds, "seeds,", comparisons, "comparisons:", *(f"{w:.1f}" for w in wrong))
    print("true difference, divergence 0.5 points, 2,000 samples; % shown before, shown, outlier")
    for gain in (0.02, 0.05):
        for seeds in SEEDS[1:]:
            for comparisons in COMPARISONS:
                args = (tries, seeds, comparisons, (2000, 0.9, 0.01, 0.005, 0), -gain)
                power = (share(is_shown, *args, before=True), share(is_shown, *args),
                         share(has_outlier, *args))  # fmt: skip
                print(f"{gain:.0%}, {seeds} seeds, {comparisons} comparisons:",
                      *(f"{100 * p:.0f}" for p in power), flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
