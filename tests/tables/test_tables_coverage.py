"""Simulations: the intervals have their nominal coverage, and A against A shows no difference.

Run values are log-normal. The spread of each configuration is drawn from 1 to 3 %, and a drift is
common to all configurations of a block. The simulations are seeded, so they only fail after a
change of the code.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from benchmarks.headline import not_in_turns
from rnnbench.records.record import run_value
from rnnbench.tables.pooling import POOLED_BELOW, pooled, pooled_spreads, spread_of
from rnnbench.tables.stats import block_differences, ratio_interval
from rnnbench.tables.time import compare

TRIES = 2000


def simulated(generator, count, repeats, low=0.01, high=0.03, drift=0.02):
    """Log seconds of `TRIES` × `count` equal configurations × `repeats`."""
    spread = np.exp(generator.uniform(np.log(low), np.log(high), (TRIES, count, 1)))
    noise = generator.normal(size=(TRIES, count, repeats)) * spread
    return noise + generator.normal(size=(TRIES, 1, repeats)) * drift


def shown_ratio(logs, pool=True):
    """The ratio that a report shows for the first two rows of `logs` (configurations ×
    repeats)."""
    a, b = np.exp(logs[0]).tolist(), np.exp(logs[1]).tolist()
    blocks = list(range(len(a)))
    ratio = ratio_interval(a, b, blocks, blocks)
    if not pool or len(a) >= POOLED_BELOW or len(logs) < 3:
        return ratio
    return pooled(ratio, block_differences(a, b, blocks, blocks), spread_of(logs))


def shown_ratio_with_missing_runs(logs):
    """As `shown_ratio`, with NaN in `logs` for missing runs."""
    sides = [np.flatnonzero(~np.isnan(side)) for side in logs[:2]]
    rows = [
        not_in_turns(np.exp(side[blocks]), blocks)
        for side, blocks in zip(logs, sides, strict=False)
    ]
    repeated = logs[(~np.isnan(logs)).sum(axis=1) > 1]
    pool = logs.shape[1] < POOLED_BELOW and len(repeated) >= 3
    return compare(rows[1], rows[0], spread_of(repeated) if pool else None)


def shown_different(logs, **how):
    return np.mean([shown_ratio(sample, **how).shown_different for sample in logs])


@pytest.mark.parametrize("repeats", [3, 5, 10])
@pytest.mark.parametrize(("low", "high"), [(0.01, 0.01), (0.03, 0.03), (0.01, 0.03)])
def test_shown_intervals_cover_93_to_97_percent(repeats, low, high):
    logs = simulated(np.random.default_rng(repeats), 4, repeats, low, high)
    assert 0.93 <= 1 - shown_different(logs) <= 0.97


# Spread between runs and between epochs, as measured on one thread (benchmarks/README.md): of
# `builds`, of 200 runs of one configuration ("A against A"), and of `quick` on a noisy machine.
@pytest.mark.parametrize(("run", "epoch"), [(0.067, 0.047), (0.117, 0.096), (0.135, 0.142)])
@pytest.mark.parametrize("repeats", [3, 5, 10])
def test_a_against_a_with_measured_spreads_of_runs_and_epochs(run, epoch, repeats):
    generator = np.random.default_rng(repeats)
    logs = simulated(generator, 2, repeats, run, run)
    epochs = generator.normal(size=(*logs.shape, 6)) * epoch
    # One epoch in twenty takes a third longer due to other processes, which the median tolerates.
    epochs += np.where(generator.random(epochs.shape) < 0.05, 0.3, 0)
    seconds = np.apply_along_axis(run_value, -1, np.exp(logs[..., None] + epochs))
    assert 0.03 <= shown_different(np.log(seconds)) <= 0.07


# Runs are missing because they are void, or because a configuration needed fewer repeats.
@pytest.mark.parametrize(
    ("count", "repeats", "missing"),
    [(4, 3, (1, 0)), (4, 4, (1, 1)), (2, 5, (1, 0)), (2, 5, (2, 0)), (2, 10, (5, 1))],
)
def test_missing_runs_keep_the_coverage_and_drift_does_not_widen(count, repeats, missing):
    widths = []
    for drift in (0.0, 0.1):
        generator = np.random.default_rng(repeats)
        logs = simulated(generator, count, repeats, drift=drift)
        for side, number in enumerate(missing):
            for sample in logs:
                sample[side, generator.choice(repeats, number, replace=False)] = np.nan
        ratios = [shown_ratio_with_missing_runs(sample) for sample in logs]
        assert 0.93 <= np.mean([ratio.low <= 1 <= ratio.high for ratio in ratios]) <= 0.975
        widths.append(np.median([np.log(ratio.high / ratio.low) for ratio in ratios]))
    assert widths[1] < 1.2 * widths[0]


@pytest.mark.parametrize("count", [2, 3, 4, 8])
def test_a_against_a_is_shown_different_in_3_to_7_percent(count):
    logs = simulated(np.random.default_rng(count), count, 3)
    assert 0.03 <= shown_different(logs) <= 0.07


def test_pooling_is_narrower_and_noisy_configurations_keep_their_coverage():
    generator = np.random.default_rng(6)
    logs = simulated(generator, 6, 3)
    widths = [
        [np.log(r.high / r.low) for r in (shown_ratio(sample), shown_ratio(sample, pool=False))]
        for sample in logs
    ]
    ratio = np.median([a / b for a, b in widths])
    assert 0.5 < ratio < 0.95
    noisy = logs * np.array([2.0, 2.0, 1, 1, 1, 1])[:, None]
    assert 1 - shown_different(noisy) >= 0.9


def test_pooled_spread_by_hand():
    # Two configurations × two blocks: residuals ± 0.25, so s² = 4 · 0.0625 / 1 = 0.25.
    spread = spread_of(np.array([[0.0, 1.0], [1.0, 1.0]]))
    assert (spread.variance, spread.degrees_of_freedom) == (pytest.approx(0.25), 1)


def test_pooled_spreads_match_spread_of_and_a_missing_run_costs_one_degree_of_freedom():
    logs = np.random.default_rng(1).normal(0, 0.02, (3, 3))
    rows = [
        {"model": "m", "device": "d", "machine": "x", "rnn": r, "pairing": b,
         "effect": np.nan, "seconds": float(np.exp(logs[r, b]))}
        for r in range(3) for b in range(3)
    ]  # fmt: skip
    complete = pooled_spreads(pd.DataFrame(rows), ["model", "device", "machine", "rnn"])
    assert complete[("m", "d", "x")].variance == pytest.approx(spread_of(logs).variance)
    logs[2, 2] = np.nan
    incomplete = pooled_spreads(pd.DataFrame(rows[:-1]), ["model", "device", "machine", "rnn"])
    assert incomplete[("m", "d", "x")].variance == pytest.approx(spread_of(logs).variance)
    assert incomplete[("m", "d", "x")].degrees_of_freedom == spread_of(logs).degrees_of_freedom == 3
    assert not pooled_spreads(pd.DataFrame(rows[:-2]), ["model", "device", "machine", "rnn"])
    duplicate = pd.DataFrame([*rows, rows[0]])
    assert not pooled_spreads(duplicate, ["model", "device", "machine", "rnn"])
