"""Simulations: the intervals have their nominal coverage, and A against A shows no difference.

Run values are log-normal. The spread of each configuration is drawn from 1 to 3 %, and a drift is
common to all configurations of a block. The simulations are seeded, so they only fail after a
change of the code.
"""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.headline import estimates_of
from rnnbench.records.record import run_value
from rnnbench.tables import estimates as module

TRIES = 1000


def simulated(generator, count, repeats, low=0.01, high=0.03, drift=0.02):
    """Log seconds of `TRIES` × `count` equal configurations × `repeats`."""
    spread = np.exp(generator.uniform(np.log(low), np.log(high), (TRIES, count, 1)))
    noise = generator.normal(size=(TRIES, count, repeats)) * spread
    return noise + generator.normal(size=(TRIES, 1, repeats)) * drift


def shown_ratios(logs, **how):
    """The ratios that a report shows for configurations 0 and 1 of each try."""
    estimates = estimates_of(logs, **how)
    return [estimates.ratio(*(("m", "d", n, pair) for pair in (1, 0))) for n in range(len(logs))]


def shown_different(logs, **how):
    return np.mean([ratio.shown_different for ratio in shown_ratios(logs, **how)])


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
        ratios = shown_ratios(logs, in_turns=False)
        assert 0.93 <= np.mean([ratio.low <= 1 <= ratio.high for ratio in ratios]) <= 0.975
        widths.append(np.median([np.log(ratio.high / ratio.low) for ratio in ratios]))
    assert widths[1] < 1.2 * widths[0]


@pytest.mark.parametrize("count", [2, 3, 4, 8])
def test_a_against_a_is_shown_different_in_3_to_7_percent(count):
    logs = simulated(np.random.default_rng(count), count, 3)
    assert 0.03 <= shown_different(logs) <= 0.07


@pytest.mark.parametrize("sessions", [3, 6])
def test_sessions_that_differ_are_covered_if_there_are_three(monkeypatch, sessions):
    """Four rounds in each session, ten minutes apart. Sessions differ by 3 %, rounds by 1 %."""
    generator = np.random.default_rng(sessions)
    logs = generator.normal(size=(TRIES, 2, 4 * sessions)) * 0.01
    logs[:, 1] += np.repeat(generator.normal(size=(TRIES, sessions)) * 0.03, 4, axis=1)
    # Each session fills half an hour with its four rounds, so that its first begins the next one.
    covered = [ratio.low <= 1 <= ratio.high for ratio in shown_ratios(logs, minutes=7.5)]
    assert 0.93 <= np.mean(covered) <= 0.97
    monkeypatch.setattr(module, "LEAST_SESSIONS", 99)
    alone = [ratio.low <= 1 <= ratio.high for ratio in shown_ratios(logs, minutes=7.5)]
    assert np.mean(alone) < 0.8, "rounds of a session are not independent"


@pytest.mark.parametrize("minutes", [1, 7.5])
def test_equal_sessions_keep_at_least_the_nominal_coverage(minutes):
    logs = np.random.default_rng(9).normal(size=(TRIES, 2, 16)) * 0.01
    covered = [ratio.low <= 1 <= ratio.high for ratio in shown_ratios(logs, minutes=minutes)]
    assert 0.93 <= np.mean(covered) <= 0.985


def test_pooling_is_narrower_and_noisy_configurations_keep_their_coverage(monkeypatch):
    generator = np.random.default_rng(6)
    logs = simulated(generator, 6, 3)
    pooled = shown_ratios(logs)
    noisy = logs * np.array([2.0, 2.0, 1, 1, 1, 1])[:, None]
    assert 1 - shown_different(noisy) >= 0.9
    monkeypatch.setattr(module, "POOLED_BELOW", 0)
    widths = [
        [np.log(ratio.high / ratio.low) for ratio in pair]
        for pair in zip(pooled, shown_ratios(logs), strict=True)
    ]
    assert 0.5 < np.median([a / b for a, b in widths]) < 0.95


def test_pooled_spread_by_hand():
    # Three configurations × two blocks: residuals ± 1/3 and ± 1/6, s² = (2/9 + 4/36) / 2 = 1/6.
    logs = np.array([[[0.0, 1.0], [1.0, 1.0], [0.0, 0.0]]])
    method = estimates_of(logs, in_turns=False).ratio(("m", "d", 0, 1), ("m", "d", 0, 0)).method
    assert method == "pooled over configurations, 2 degrees of freedom"
    spread, repeats = estimates_of(logs)._spread_of(("m", "d", 0))
    assert spread.variance == pytest.approx(1 / 6) and repeats == 2


def test_a_missing_run_costs_one_degree_of_freedom():
    logs = np.random.default_rng(1).normal(0, 0.02, (1, 3, 3))
    logs[0, 2, 2] = np.nan
    spread, _ = estimates_of(logs)._spread_of(("m", "d", 0))
    assert spread.degrees_of_freedom == 3
    logs[0, 2, 1] = np.nan
    assert estimates_of(logs)._spread_of(("m", "d", 0))[0] is None, "two repeated ones are too few"
