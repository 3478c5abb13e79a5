"""Intervals against numbers computed by hand and against scipy."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import dunnett as scipy_dunnett
from scipy.stats import ttest_ind, ttest_rel

from rnnbench.records.record import run_value
from rnnbench.tables.estimates import Estimates
from rnnbench.tables.stats import (
    ONE_RUN,
    Ratio,
    difference_interval,
    dunnett_quantile,
    mean_interval,
)


def ratio_interval(a, b, blocks_a=None, blocks_b=None, **others) -> Ratio:
    """The ratio of the seconds `a` to `b`; without blocks, on different machines. `others`: name →
    (seconds, blocks) of further configurations on the machine of `a`."""
    sides = {"a": (a, blocks_a), "b": (b, blocks_b), **others}
    rows = [
        {"model": "m", "device": "d", "machine": "x" if blocks else side, "rnn": side,
         "seconds": seconds, "pairing": f"{block}" if blocks else f"{side}{number}",
         "effect": float("nan"), "widening": 1.0, "slowed": False, "slow_effect": float("nan"),
         "slow_cycles": 0, "cycles": 0, "companion": False, "started": "20261121T075000_123456Z"}
        for side, (values, blocks) in sides.items()
        for number, (seconds, block) in enumerate(
            zip(values, blocks or range(len(values)), strict=True)
        )
    ]  # fmt: skip
    estimates = Estimates(pd.DataFrame(rows), ["rnn", "model", "device", "machine"])
    key_a, key_b = ((side, "m", "d", "x" if sides[side][1] else side) for side in ("a", "b"))
    ratio = estimates.ratio(key_b, key_a)
    quotient = estimates.seconds(key_a).estimate / estimates.seconds(key_b).estimate
    assert ratio.estimate == pytest.approx(quotient, rel=1e-12)
    return ratio


def test_run_value_is_the_median_of_the_epochs_after_the_first():
    assert run_value([9.0, 0.5, 0.7, 0.4]) == 0.5
    assert run_value([0.4, 0.6]) == 0.6
    assert run_value([0.4]) == 0.4


def test_mean_interval_by_hand():
    # Logarithms 0, 1, 2: mean 1, s = 1, t(2) at 97.5 % = 4.302653.
    interval = mean_interval([1.0, math.e, math.e**2])
    halfwidth = 4.302652730 / math.sqrt(3)
    assert interval.estimate == pytest.approx(math.e)
    assert interval.low == pytest.approx(math.exp(1 - halfwidth))
    assert interval.high == pytest.approx(math.exp(1 + halfwidth))


def test_difference_interval_by_hand():
    # -1, 0, 1: mean 0, s = 1.
    interval = difference_interval([-1.0, 0.0, 1.0])
    assert (interval.estimate, interval.high) == (0, pytest.approx(4.302652730 / math.sqrt(3)))


def test_welch_interval_matches_scipy():
    generator = np.random.default_rng(3)
    a, b = np.exp(generator.normal(0.2, 0.03, 4)), np.exp(generator.normal(0, 0.08, 7))
    interval = ttest_ind(np.log(a), np.log(b), equal_var=False).confidence_interval(0.95)
    ratio = ratio_interval(a.tolist(), b.tolist())
    assert ratio.method == "welch"
    assert (ratio.low, ratio.high) == pytest.approx(
        (math.exp(interval.low), math.exp(interval.high))
    )


def test_complete_blocks_are_paired_in_any_order():
    generator = np.random.default_rng(4)
    drift = generator.normal(0, 0.3, 5)
    a = np.exp(0.1 + drift + generator.normal(0, 0.01, 5))
    b = np.exp(drift + generator.normal(0, 0.01, 5))
    interval = ttest_rel(np.log(a), np.log(b)).confidence_interval(0.95)
    ratio = ratio_interval(a.tolist(), b[::-1].tolist(), [0, 1, 2, 3, 4], [4, 3, 2, 1, 0])
    assert ratio.method == "paired" and ratio.shown_different
    assert (ratio.low, ratio.high) == pytest.approx(
        (math.exp(interval.low), math.exp(interval.high))
    )


def test_too_few_common_blocks_are_not_paired():
    a, b = [1.0, 1.1], [1.0, 1.2]
    assert ratio_interval(a, b, None, [0, 1]).method == "welch"
    assert ratio_interval(a, b, [0, 0], [0, 0]).method == "by way of others"
    assert ratio_interval(a, b, [0, 1], [0, 2]).method == ONE_RUN, "no degree of freedom is left"


def test_configurations_that_never_met_are_compared_by_way_of_others():
    """a and b were measured with c, in different blocks: the variances of both differences add."""
    noise = np.random.default_rng(2).normal(0, 0.02, (4, 40))
    blocks = list(range(40))
    first, second = blocks[:20], blocks[20:]
    c, a, b = (np.exp(noise[n] + level) for n, level in enumerate((0.0, 0.3, 0.1)))
    ratio = ratio_interval(a[:20].tolist(), b[20:].tolist(), first, second, c=(c.tolist(), blocks))
    with_a, with_b = np.log(a[:20] / c[:20]), np.log(b[20:] / c[20:])
    assert ratio.method == "by way of others"
    assert math.log(ratio.estimate) == pytest.approx(with_a.mean() - with_b.mean())
    expected = 1.96 * math.sqrt(with_a.var(ddof=1) / 20 + with_b.var(ddof=1) / 20)
    assert math.log(ratio.high / ratio.low) / 2 == pytest.approx(expected, rel=0.1)


def test_a_missing_run_does_not_move_the_ratio_of_the_others():
    a, b = [1.0, 2.0, 4.0], [3.0, 6.0]  # b has no run in the slowest block
    ratio = ratio_interval(a, b, [0, 1, 2], [0, 1], c=([1.0, 2.0, 4.0], [0, 1, 2]))
    assert ratio.estimate == pytest.approx(1 / 3)


def test_runs_are_paired_by_common_blocks():
    # Blocks 1, 2 and 3 are common, with ratios 1.1, 1.2 and 1.3; other runs are ignored.
    a, b = [7.0, 1.1, 2.4, 3.9], [1.0, 2.0, 3.0, 0.1]
    ratio = ratio_interval(a, b, [0, 1, 2, 3], [1, 2, 3, 4])
    interval = ttest_rel(np.log([1.1, 2.4, 3.9]), np.log([1, 2, 3])).confidence_interval(0.95)
    assert ratio.method == "paired on 3 common blocks"
    assert (ratio.low, ratio.high) == pytest.approx(
        (math.exp(interval.low), math.exp(interval.high))
    )


@pytest.mark.parametrize(("comparisons", "runs"), [(3, 4), (7, 3), (11, 5)])
def test_dunnetts_quantile_matches_scipy(comparisons, runs):
    samples = np.random.default_rng(comparisons).normal(size=(comparisons + 1, runs))
    interval = scipy_dunnett(*samples[1:], control=samples[0], rng=0).confidence_interval()
    spread = math.sqrt(np.mean(samples.var(axis=1, ddof=1)) * 2 / runs)
    expected = (interval.high - interval.low)[0] / 2 / spread
    assert dunnett_quantile(0.95, comparisons, (comparisons + 1) * (runs - 1)) == pytest.approx(
        expected, rel=5e-3
    )


def test_dunnetts_quantile_of_one_comparison_is_students():
    assert dunnett_quantile(0.95, 1, 4) == pytest.approx(2.776445)


def test_one_run_has_no_interval():
    ratio = ratio_interval([2.0], [1.0, 1.0, 1.0])
    assert (ratio.estimate, ratio.low, ratio.high) == (pytest.approx(2), None, None)
    assert ratio.method == ONE_RUN and not ratio.shown_different
    assert mean_interval([0.5]).low is None


def test_equal_values_give_an_interval_of_width_zero():
    same = ratio_interval([1.0, 1.0], [1.0, 1.0])
    assert (same.low, same.high, same.shown_different) == (1.0, 1.0, False)
    twice = ratio_interval([2.0, 2.0], [1.0, 1.0], [0, 1], [0, 1])
    assert twice.low == twice.high == pytest.approx(2) and twice.shown_different
    assert mean_interval([0.5, 0.5]).low == pytest.approx(0.5)


def test_a_side_without_variance_leaves_the_degrees_of_freedom_of_the_other():
    a, b = [1.0, 1.0, 1.0], [1.1, 1.2, 1.3]
    interval = ttest_ind(np.log(a), np.log(b), equal_var=False).confidence_interval(0.95)
    assert ratio_interval(a, b).low == pytest.approx(math.exp(interval.low))


def test_intervals_have_their_nominal_coverage():
    generator, hits, tries = np.random.default_rng(1), 0, 400
    for _ in range(tries):
        a, b = np.exp(generator.normal(0, 0.03, (2, 3)))
        ratio = ratio_interval(a.tolist(), b.tolist())
        hits += ratio.low <= 1 <= ratio.high
    assert 0.92 < hits / tries <= 1
