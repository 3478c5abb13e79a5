"""Simulations: the intervals that are used cover what they say, and A against A stays equal.

Run values are log-normal; spreads are drawn anew for each cell, 1 to 3 %, and a drift common to
all cells of a block comes on top. Seeded, so a failure is a change of the code.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from benchmarks.headline import alone
from rnnbench.records.record import run_value
from rnnbench.tables.pooling import POOLED_BELOW, pooled, pooled_spreads, spread_of
from rnnbench.tables.rank_test import bootstrap_interval, rank_p
from rnnbench.tables.stats import block_differences, ratio_interval
from rnnbench.tables.time import compare

TRIES = 2000


def made(generator, cells, repeats, low=0.01, high=0.03, drift=0.02):
    """Log seconds of `TRIES` × `cells` × `repeats`, where nothing differs between cells."""
    spread = np.exp(generator.uniform(np.log(low), np.log(high), (TRIES, cells, 1)))
    noise = generator.normal(size=(TRIES, cells, repeats)) * spread
    return noise + generator.normal(size=(TRIES, 1, repeats)) * drift


def used(logs, pool=True):
    """The ratio that a page shows for the first two cells of `logs` (cells × repeats)."""
    a, b = np.exp(logs[0]).tolist(), np.exp(logs[1]).tolist()
    blocks = list(range(len(a)))
    ratio = ratio_interval(a, b, blocks, blocks)
    if not pool or len(a) >= POOLED_BELOW or len(logs) < 3:
        return ratio
    return pooled(ratio, block_differences(a, b, blocks, blocks), spread_of(logs))


def used_of_some(logs):
    """As `used` of logs with NaN where a run is missing."""
    sides = [np.flatnonzero(~np.isnan(side)) for side in logs[:2]]
    rows = [alone(np.exp(side[blocks]), blocks) for side, blocks in zip(logs, sides, strict=False)]
    several = logs[(~np.isnan(logs)).sum(axis=1) > 1]
    pool = logs.shape[1] < POOLED_BELOW and len(several) >= 3
    return compare(rows[1], rows[0], spread_of(several) if pool else None)


def shown_different(logs, **how):
    return np.mean([used(one, **how).shown_different for one in logs])


@pytest.mark.parametrize("repeats", [3, 5, 10])
@pytest.mark.parametrize(("low", "high"), [(0.01, 0.01), (0.03, 0.03), (0.01, 0.03)])
def test_what_is_used_covers_93_to_97_percent(repeats, low, high):
    logs = made(np.random.default_rng(repeats), 4, repeats, low, high)
    assert 0.93 <= 1 - shown_different(logs) <= 0.97


# Spread from run to run and from epoch to epoch, as measured on one thread (benchmarks/README.md):
# of `builds`, of 200 runs of one cell ("A against A"), and of `quick` in a bad hour.
@pytest.mark.parametrize(("run", "epoch"), [(0.067, 0.047), (0.117, 0.096), (0.135, 0.142)])
@pytest.mark.parametrize("repeats", [3, 5, 10])
def test_a_against_a_from_epochs_that_differ_as_measured_ones_do(run, epoch, repeats):
    generator = np.random.default_rng(repeats)
    logs = made(generator, 2, repeats, run, run)
    epochs = generator.normal(size=(*logs.shape, 6)) * epoch
    # One epoch in twenty takes a third longer: something else ran, and the median is to bear it.
    epochs += np.where(generator.random(epochs.shape) < 0.05, 0.3, 0)
    seconds = np.apply_along_axis(run_value, -1, np.exp(logs[..., None] + epochs))
    assert 0.03 <= shown_different(np.log(seconds)) <= 0.07


# As runs are lost: void ones, or a cell that was known well enough before the others.
@pytest.mark.parametrize(
    ("cells", "repeats", "lost"),
    [(4, 3, (1, 0)), (4, 4, (1, 1)), (2, 5, (1, 0)), (2, 5, (2, 0)), (2, 10, (5, 1))],
)
def test_runs_that_are_missing_leave_the_coverage_and_drift_does_not_widen(cells, repeats, lost):
    widths = []
    for drift in (0.0, 0.1):
        generator = np.random.default_rng(repeats)
        logs = made(generator, cells, repeats, drift=drift)
        for side, count in enumerate(lost):
            for one in logs:
                one[side, generator.choice(repeats, count, replace=False)] = np.nan
        found = [used_of_some(one) for one in logs]
        assert 0.93 <= np.mean([one.low <= 1 <= one.high for one in found]) <= 0.975
        widths.append(np.median([np.log(one.high / one.low) for one in found]))
    assert widths[1] < 1.2 * widths[0]


@pytest.mark.parametrize("cells", [2, 3, 4, 8])
def test_a_against_a_is_shown_different_in_3_to_7_percent(cells):
    logs = made(np.random.default_rng(cells), cells, 3)
    assert 0.03 <= shown_different(logs) <= 0.07


def test_pooling_is_narrower_and_noisy_cells_keep_their_coverage():
    generator = np.random.default_rng(6)
    logs = made(generator, 6, 3)
    widths = [[np.log(r.high / r.low) for r in (used(one), used(one, pool=False))] for one in logs]
    ratio = np.median([a / b for a, b in widths])
    assert 0.5 < ratio < 0.95
    noisy = logs * np.array([2.0, 2.0, 1, 1, 1, 1])[:, None]
    assert 1 - shown_different(noisy) >= 0.9


def test_pooled_by_hand():
    # Cells 0, 1 and blocks 0, 1: residuals ± 0.25, so s² = 4 · 0.0625 / 1 = 0.25, one freedom.
    spread = spread_of(np.array([[0.0, 1.0], [1.0, 1.0]]))
    assert (spread.variance, spread.freedom) == (pytest.approx(0.25), 1)


def test_the_table_and_the_matrix_pool_alike_and_a_gap_costs_one_freedom():
    logs = np.random.default_rng(1).normal(0, 0.02, (3, 3))
    rows = [
        {"model": "m", "device": "d", "machine": "x", "rnn": r, "sitting": b,
         "effect": np.nan, "seconds": float(np.exp(logs[r, b]))}
        for r in range(3) for b in range(3)
    ]  # fmt: skip
    found = pooled_spreads(pd.DataFrame(rows), ["model", "device", "machine", "rnn"])
    assert found[("m", "d", "x")].variance == pytest.approx(spread_of(logs).variance)
    logs[2, 2] = np.nan
    some = pooled_spreads(pd.DataFrame(rows[:-1]), ["model", "device", "machine", "rnn"])
    assert some[("m", "d", "x")].variance == pytest.approx(spread_of(logs).variance)
    assert some[("m", "d", "x")].freedom == spread_of(logs).freedom == 3
    assert not pooled_spreads(pd.DataFrame(rows[:-2]), ["model", "device", "machine", "rnn"])
    twice = pd.DataFrame([*rows, rows[0]])
    assert not pooled_spreads(twice, ["model", "device", "machine", "rnn"])


def test_second_opinions_wait_for_enough_runs():
    five, ten = list(np.linspace(1, 1.1, 5)), list(np.linspace(1, 1.1, 10))
    assert bootstrap_interval(ten[:9], ten) is None and rank_p(five[:4], five) is None
    low, high = bootstrap_interval(ten, ten)
    assert low < 1 < high
    # Five above five: 1 of C(10, 5) = 252 arrangements on each side.
    assert rank_p(five, [x + 1 for x in five]) == pytest.approx(2 / 252)
