"""Intervals against numbers computed by hand and against SciPy; simulations, in which they have
their nominal coverage, and A against A shows no difference.

Run values are log-normal. The spread of each configuration is drawn from 1 to 3 %, and a drift is
common to all configurations of a block. The simulations are seeded, so they only fail after a
change of the code.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import ttest_ind, ttest_rel

from benchmarks.fastest import estimates_of, experiments
from rnnbench.records.record import run_seconds
from rnnbench.report.rounds import method_text
from rnnbench.tables import ratios as module
from rnnbench.tables.effects import RunValue
from rnnbench.tables.fit import effective_freedom, pooled_spreads
from rnnbench.tables.ratios import UNEQUAL, Basis, Estimates, Ratio
from rnnbench.tables.states import State
from rnnbench.tables.stats import (
    difference_interval,
    mean_interval,
    student_quantile,
)


def ratio_interval(a, b, blocks_a=None, blocks_b=None, **others) -> Ratio:
    """The ratio of the seconds `a` to `b`; without blocks, on different machines. `others`: name →
    (seconds, blocks) of further configurations on the machine of `a`."""
    sides = {"a": (a, blocks_a), "b": (b, blocks_b), **others}
    runs = []
    for side, (values, blocks) in sides.items():
        machine = "x" if blocks else side
        units = blocks or [f"{side}{number}" for number in range(len(values))]
        for seconds, unit in zip(values, units, strict=True):
            runs.append(RunValue(side, machine, math.log(seconds), str(unit), machine, 0.0))
    estimates = Estimates(runs)
    ratio = estimates.ratio("b", "a")
    quotient = estimates.seconds("a").estimate / estimates.seconds("b").estimate
    assert ratio.estimate == pytest.approx(quotient, rel=1e-12)
    return ratio


def test_run_value_is_the_median_of_the_epochs_after_the_first():
    assert list(map(run_seconds, ([9.0, 0.5, 0.7, 0.4], [0.4, 0.6], [0.4]))) == [0.5, 0.6, 0.4]


def assert_ends(ratio: Ratio, interval) -> None:
    """The ends of a ratio are those of SciPy's `interval` of the difference of logarithms."""
    ends = (math.exp(interval.low), math.exp(interval.high))
    assert (ratio.low, ratio.high) == pytest.approx(ends)


def test_mean_interval_by_hand():
    # Logarithms 0, 1, 2: mean 1, s = 1, t(2) at 97.5 % = 4.302653.
    interval, halfwidth = mean_interval([1.0, math.e, math.e**2]), 4.302652730 / math.sqrt(3)
    assert interval.estimate == pytest.approx(math.e)
    assert interval.low == pytest.approx(math.exp(1 - halfwidth))
    assert interval.high == pytest.approx(math.exp(1 + halfwidth))
    interval = difference_interval([-1.0, 0.0, 1.0])
    assert (interval.estimate, interval.high) == (0, pytest.approx(halfwidth))


def test_welch_interval_matches_scipy():
    generator = np.random.default_rng(3)
    a, b = np.exp(generator.normal(0.2, 0.03, 4)), np.exp(generator.normal(0, 0.08, 7))
    # A side without variance leaves the degrees of freedom of the other.
    for one, other in ((a, b), ([1.0, 1.0, 1.0], [1.1, 1.2, 1.3])):
        ratio = ratio_interval(one, other)
        test = ttest_ind(np.log(one), np.log(other), equal_var=False)
        assert ratio.method.basis is Basis.SEPARATE
        assert_ends(ratio, test.confidence_interval(0.95))


BLOCKS = st.sets(st.integers(0, 5), min_size=3)


@given(BLOCKS, BLOCKS)
def test_runs_are_paired_by_common_blocks_in_any_order(blocks_a, blocks_b):
    common = sorted(blocks_a & blocks_b)
    assume(len(common) >= 3)
    generator = np.random.default_rng(4)
    drift = generator.normal(0, 0.3, 6)
    a, b = (level + drift + generator.normal(0, 0.01, 6) for level in (0.1, 0.0))
    in_a, in_b = sorted(blocks_a), sorted(blocks_b, reverse=True)
    ratio = ratio_interval(np.exp(a[in_a]), np.exp(b[in_b]), in_a, in_b)
    on_common = "" if blocks_a == blocks_b else f" on {len(common)} common blocks"
    assert method_text(ratio.method) == f"paired{on_common}" and ratio.shown_different
    assert_ends(ratio, ttest_rel(a[common], b[common]).confidence_interval(0.95))


def test_too_few_common_blocks_are_not_paired():
    a, b = [1.0, 1.1], [1.0, 1.2]
    assert ratio_interval(a, b, None, [0, 1]).method.basis is Basis.SEPARATE
    assert ratio_interval(a, b, [0, 0], [0, 0]).method.basis is Basis.BY_WAY_OF_OTHERS
    no_freedom = ratio_interval(a, b, [0, 1], [0, 2])
    assert no_freedom.method.basis is Basis.NONE and no_freedom.low is None
    # A run that b lacks, in the slowest block, does not move the ratio of the others.
    a, b, c = ([1.0, 2.0, 4.0], [0, 1, 2]), ([3.0, 6.0], [0, 1]), ([1.0, 2.0, 4.0], [0, 1, 2])
    assert ratio_interval(a[0], b[0], a[1], b[1], c=c).estimate == pytest.approx(1 / 3)


def test_configurations_that_never_met_are_compared_by_way_of_others():
    """a and b were measured with c, in different blocks: the variances of both differences add."""
    noise = np.random.default_rng(2).normal(0, 0.02, (4, 40))
    blocks = list(range(40))
    first, second = blocks[:20], blocks[20:]
    c, a, b = (np.exp(noise[n] + level) for n, level in enumerate((0.0, 0.3, 0.1)))
    ratio = ratio_interval(a[:20], b[20:], first, second, c=(c, blocks))
    with_a, with_b = np.log(a[:20] / c[:20]), np.log(b[20:] / c[20:])
    assert ratio.method.basis is Basis.BY_WAY_OF_OTHERS
    assert math.log(ratio.estimate) == pytest.approx(with_a.mean() - with_b.mean())
    expected = 1.96 * math.sqrt(with_a.var(ddof=1) / 20 + with_b.var(ddof=1) / 20)
    assert math.log(ratio.high / ratio.low) / 2 == pytest.approx(expected, rel=0.1)


LONG = pytest.mark.slow_tier("a long simulation")


def test_one_run_has_no_interval_and_equal_values_one_of_width_zero():
    ratio = ratio_interval([2.0], [1.0, 1.0, 1.0])
    assert (ratio.estimate, ratio.low, ratio.high) == (pytest.approx(2), None, None)
    assert ratio.method.basis is Basis.NONE and not ratio.shown_different
    same = ratio_interval([1.0, 1.0], [1.0, 1.0])
    assert (same.low, same.high, same.shown_different) == (1.0, 1.0, False)
    twice = ratio_interval([2.0, 2.0], [1.0, 1.0], [0, 1], [0, 1])
    assert twice.low == twice.high == pytest.approx(2) and twice.shown_different
    assert mean_interval([0.5]).low is None and mean_interval([0.5, 0.5]).low == pytest.approx(0.5)


TRIES = 500  # find intervals that cover 90 % in 98 of 100 simulations


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


@pytest.mark.parametrize(
    ("count", "repeats", "low", "high"),
    [
        (4, 3, 0.01, 0.01),
        (2, 3, 0.01, 0.03),
        pytest.param(8, 3, 0.01, 0.03, marks=LONG),
        pytest.param(4, 5, 0.01, 0.03, marks=LONG),
        pytest.param(4, 10, 0.01, 0.03, marks=LONG),
    ],
)
def test_shown_intervals_cover_93_to_98_percent(count, repeats, low, high):
    logs = simulated(np.random.default_rng(repeats), count, repeats, low, high)
    assert 0.02 <= shown_different(logs) <= 0.07


# Runs are missing because they are void, or because a configuration needed fewer repeats.
@pytest.mark.parametrize(
    ("count", "repeats", "missing"),
    [
        (4, 3, (1, 0)),
        (2, 5, (2, 0)),
        pytest.param(4, 4, (1, 1), marks=LONG),
        pytest.param(2, 5, (1, 0), marks=LONG),
        pytest.param(2, 10, (5, 1), marks=LONG),
    ],
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


@pytest.mark.parametrize(
    ("spread", "sessions", "minutes", "least", "most"),
    [
        (0.03, 3, 7.5, 0.03, 0.07),
        (0.0, 4, 1, 0.015, 0.07),
        pytest.param(0.03, 6, 7.5, 0.03, 0.07, marks=LONG),
        pytest.param(0.0, 4, 7.5, 0.015, 0.07, marks=LONG),
    ],
)
def test_sessions_are_covered_if_there_are_three(
    monkeypatch, spread, sessions, minutes, least, most
):
    """Four rounds in each session, which differ by 1 %; sessions differ by `spread`."""
    generator = np.random.default_rng(sessions)
    logs = generator.normal(size=(TRIES, 2, 4 * sessions)) * 0.01
    logs[:, 1] += np.repeat(generator.normal(size=(TRIES, sessions)) * spread, 4, axis=1)
    # Each session fills half an hour with its four rounds, so that its first begins the next one.
    assert least <= shown_different(logs, minutes=minutes) <= most
    monkeypatch.setattr(module, "LEAST_SESSIONS", 99)
    # Rounds of a session are not independent.
    assert shown_different(logs, minutes=minutes) > (0.2 if spread else 0)


def test_sharing_is_narrower_and_noisy_configurations_keep_their_coverage(monkeypatch):
    generator = np.random.default_rng(6)
    logs = simulated(generator, 6, 3)[:200]
    shared = shown_ratios(logs)
    noisy = logs * np.array([2.0, 2.0, 1, 1, 1, 1])[:, None]
    assert 1 - shown_different(noisy) >= 0.9
    monkeypatch.setattr(module, "pooled_spreads", lambda runs: {})
    widths = [
        [np.log(ratio.high / ratio.low) for ratio in pair]
        for pair in zip(shared, shown_ratios(logs), strict=True)
    ]
    assert 0.4 < np.median([a / b for a, b in widths]) < 0.95


def test_intervals_exclude_the_truth_in_at_most_one_of_twenty():
    """Two rounds of four members: two are equal, and one of the four is three times as noisy. A
    wrong fastest is then named in half of the cases, 2.5 %."""
    tries = 1000
    _, _, logs = experiments(tries, 4, 2, "1 to 3 %, one thrice", seed=3, apart=(1e-9,), near=2)
    assert shown_different(logs) <= 0.05


def test_all_pairs_of_a_device_have_the_same_method():
    """Whether a pair happened to agree in its rounds does not decide about its method."""
    for logs in simulated(np.random.default_rng(7), 4, 2)[:50]:
        estimates = estimates_of(logs[None])
        keys = [("m", "d", 0, number) for number in range(4)]
        ratios = [estimates.ratio(a, b) for a in keys for b in keys if a < b]
        assert {ratio.method for ratio in ratios} == {ratios[0].method}
        assert ratios[0].method.pooled == pytest.approx(2.25) and ratios[0].method.units == 2


def test_shared_spreads_by_hand():
    # Three configurations × two blocks: residuals ± 1/3 and ± 1/6, s² = (2/9 + 4/36) / 2 = 1/6.
    logs = np.array([[[0.0, 1.0], [1.0, 1.0], [0.0, 0.0]]])
    estimates = estimates_of(logs, in_turns=False)
    keys = [("m", "d", 0, number) for number in range(3)]
    method = estimates.ratio(keys[1], keys[0]).method
    assert method_text(method) == "paired; pooled over configurations, 1.75 degrees of freedom"
    # Own: (2/9 - 1/18) / (1/3) = 1/2 and (1/18 - 1/18) / (1/3) = 0. Shared: (2/6 + own) / 3.
    found = pooled_spreads(estimates._runs)
    assert [found[key].variance for key in keys] == pytest.approx([5 / 18, 1 / 9, 1 / 9])
    # 3 / 2 + 1 / 4 of two blocks, 0.4 (3 + 1) (n - 1) of n, but no more than n - 1 + 0.8 · 3.
    assert [found[key].degrees_of_freedom for key in keys] == pytest.approx([1.75, 1.75, 1.75])
    assert effective_freedom(2, 3) == pytest.approx(3.2)
    assert effective_freedom(4, 3) == pytest.approx(6.4)
    assert effective_freedom(7, 3) == pytest.approx(9.4)
    # Eight configurations: 8 / 3 + 5 / 4; twenty: 0.4 (20 + 1). Half a degree counts as half.
    assert effective_freedom(1, 8) == pytest.approx(3.9167, abs=1e-4)
    assert effective_freedom(1, 20) == pytest.approx(8.4)
    assert effective_freedom(0.5, 3) == pytest.approx(0.875)
    logs = np.random.default_rng(1).normal(0, 0.02, (1, 3, 3))
    logs[0, 2, 2] = np.nan  # The two others have 2 2/3 configurations in their blocks.
    found = pooled_spreads(estimates_of(logs)._runs)
    assert [found[key].degrees_of_freedom for key in keys] == pytest.approx(
        [0.4 * 11 / 3 * 2, 0.4 * 11 / 3 * 2, 1.75]
    )
    logs[0, 2, 1] = np.nan
    assert pooled_spreads(estimates_of(logs)._runs) == {}, "two repeated ones are too few"


def rounds_of(states: list[State], pairs: list[float], slowness: float = 0.2) -> Estimates:
    """Rounds of two configurations whose log seconds differ by these `pairs`."""
    runs = []
    for number, (state, pair) in enumerate(zip(states, pairs, strict=True)):
        for key, log in (("block", 0.0), ("keras", pair)):
            slow = slowness if state == State.SLOWED else 0.0
            runs.append(
                RunValue(key, "here", number + log, f"round {number}", "here", 60.0 * number,
                         in_turns=True, state=state, slowness=slow)
            )  # fmt: skip
    return Estimates(runs)


Q, P, S = State.QUIET, State.PARTLY_SLOWED, State.SLOWED


@pytest.mark.parametrize(
    ("states", "counting"),
    [
        ([Q, Q, Q, P, S], [0, 1, 2]),
        ([Q, Q, P, P, S], [0, 1, 2, 3]),  # two quiet rounds are too few
        ([P, Q, S, S, S], [0, 1]),
        ([S, S, P, S, S], [2]),
        ([S, S, S, S, S], [0, 1, 2, 3, 4]),
        ([Q, Q, Q, Q, Q], [0, 1, 2, 3, 4]),
    ],
)
def test_slowed_rounds_do_not_count_where_enough_others_remain(states, counting):
    pairs = [0.30, 0.32, 0.33, 0.40, 0.50]
    ratio = rounds_of(states, pairs).ratio("block", "keras")
    used = [pairs[number] for number in counting]
    assert math.log(ratio.estimate) == pytest.approx(np.mean(used), abs=1e-5)
    of_spread = used if len(used) > 1 else pairs
    error = np.std(of_spread, ddof=1) / math.sqrt(len(used))
    unknown = math.sqrt(2) * UNEQUAL * 0.2 if set(states) == {S} else 0.0
    half = student_quantile(0.95, len(of_spread) - 1) * math.hypot(error, unknown)
    assert math.log(ratio.high / ratio.estimate) == pytest.approx(half, rel=1e-3)


@pytest.mark.parametrize(
    ("states", "slowed"), [([Q, S], True), ([Q, Q, S], False), ([S], True), ([P], False)]
)
def test_a_configuration_with_fewer_than_two_undisturbed_rounds_is_of_a_slowed_machine(
    states, slowed
):
    assert rounds_of(states, [0.3] * len(states)).is_slowed("block") is slowed


def test_a_configuration_that_has_only_companions_is_no_result():
    runs = [
        RunValue(key, "here", 0.0, f"{n}", "here", 0.0, is_companion=key == "a", in_turns=True)
        for key in "ab"
        for n in range(3)
    ]
    estimates = Estimates(runs)
    assert "a" not in estimates and "b" in estimates
