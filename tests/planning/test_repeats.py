"""The forecast of repeats, and the rule that stops them."""

from __future__ import annotations

import math
import random
from statistics import fmean

import numpy as np
import pytest

from rnnbench.errors import ConfigError, converted
from rnnbench.planning.finished import FinishedRun
from rnnbench.planning.forecast import (
    GUESS_SECONDS,
    GUESS_SPREAD,
    OVERHEAD_SECONDS,
    SAMPLE_SECONDS,
    forecast,
    power_of,
    repeats_for,
    spread_of,
)
from rnnbench.planning.repeats import Known, stop_reason
from rnnbench.records.interval import Interval
from rnnbench.records.plan_file import Repeats
from rnnbench.records.rounds import NotNeeded
from rnnbench.tables.effects import RunValue
from rnnbench.tables.ratios import Estimates
from rnnbench.tables.stats import welch_halfwidth


def finished(configuration: str, *walls: float) -> list[FinishedRun]:
    return [
        FinishedRun(
            name=f"{configuration}-s0-r{i}",
            device="cpu_1",
            wall_seconds=wall,
            value=RunValue(configuration, "cpu_1", math.log(wall), f"block {i}", "here", 60.0 * i),
        )
        for i, wall in enumerate(walls)
    ]


def test_repeats_beyond_the_minimum_take_what_the_budget_leaves() -> None:
    runs = dict.fromkeys(["a-s0-r0", "a-s0-r1", "a-s0-r2"], 0)
    of_run = GUESS_SECONDS + OVERHEAD_SECONDS
    for budget, measured in ((None, 3), (1e9, 3), (1.5 * GUESS_SECONDS, 1.5), (0.0, 1)):
        result = forecast(runs, [], optional={"a-s0-r1", "a-s0-r2"}, budget=budget)
        assert result.seconds == pytest.approx(measured * of_run)


def test_the_budget_leaves_what_other_runs_have_not_spent() -> None:
    """22 s are spent; of what is left, 11 s are needed and 5 s remain for the optional run."""
    past = [
        *finished("a", 10, 12),
        FinishedRun(name="b-s0-r0", device="", wall_seconds=None, value=None),
    ]
    result = forecast({"a-s0-r2": 0, "a-s0-r3": 0}, past, optional={"a-s0-r3"}, budget=38.0)
    assert result.seconds == pytest.approx(16 + 2 * 16 / 22 * OVERHEAD_SECONDS)
    assert forecast({"a-s0-r1": 0}, past, optional={"a-s0-r1"}, budget=30.0).seconds == (
        pytest.approx(11 + OVERHEAD_SECONDS)
    ), "what a run that is measured again took is not spent"


def test_without_finished_runs_the_forecast_is_a_guess() -> None:
    result = forecast({"a-s0-r0": 0, "a-s0-r1": 10}, [])
    assert result.guessed == result.left == 2
    assert result.seconds == 2 * (GUESS_SECONDS + OVERHEAD_SECONDS)
    assert (result.spread, result.degrees_of_freedom) == (GUESS_SPREAD, 0)
    large = forecast({"a-s0-r0": 1_000_000}, [])
    assert large.seconds == 1_000_000 * SAMPLE_SECONDS + OVERHEAD_SECONDS


def test_a_finished_configuration_is_forecast_from_its_own_times() -> None:
    runs = [*finished("a", 10, 12), *finished("b", 100)]
    left = dict.fromkeys(["a-s0-r7", "a-s0-r8", "b-s1-r0", "c-s0-r0"], 0)
    result = forecast(left, runs, sizes=[500, 1500])
    assert result.seconds == pytest.approx(11 + 11 + 100 + 55.5 + 4 * 2)
    assert result.guessed == 1
    assert result.bytes == 4000


def noisy(names: str, blocks: int, spread: float, drift: float) -> list[FinishedRun]:
    """Runs of each name in each block, all of which share its drift."""
    stream = random.Random(1)
    levels = [stream.gauss(0, drift) for _ in range(blocks)]
    runs = []
    for name in names:
        walls = [10 * math.exp(level + stream.gauss(0, spread)) for level in levels]
        runs += finished(name, *walls)
    return runs


def test_the_spread_is_that_of_a_run_without_what_all_runs_of_a_block_share() -> None:
    spread = spread_of(noisy("abc", 300, 0.02, 0.3))
    assert math.sqrt(spread.variance) == pytest.approx(0.02, rel=0.1)
    assert spread.degrees_of_freedom == 2 * 299
    assert spread_of(finished("a", 10, 11)) is None, "one configuration has no common blocks"


def test_other_runs_of_the_machine_count_if_degrees_of_freedom_are_few() -> None:
    few, many = noisy("ab", 3, 0.5, 0.0), noisy("cdef", 6, 0.02, 0.0)
    result = forecast({"a-s0-r3": 0}, few, lambda: many)
    assert result.borrowed and result.degrees_of_freedom > 4
    result = forecast({"c-s0-r6": 0}, many, lambda: pytest.fail("called without need"))
    assert result.spread == pytest.approx(0.02, rel=0.3) and not result.borrowed


@pytest.mark.parametrize("spread", [0.01, 0.03])
@pytest.mark.parametrize("difference", [0.02, 0.05, 0.10])
def test_the_forecast_repeats_have_a_power_of_80_percent(difference: float, spread: float) -> None:
    repeats = repeats_for(difference, spread)
    assert repeats is not None and repeats_for(1e-5, 0.3) is None

    def power(runs: int, seed: int) -> float:
        generator = random.Random(seed)

        def sample(level: float) -> list[float]:
            return [math.log(level) + generator.gauss(0, spread) for _ in range(repeats)][:runs]

        pairs = [(sample(1 + difference), sample(1.0)) for _ in range(400)]
        shown = (abs(fmean(a) - fmean(b)) > welch_halfwidth(a, b, 0.95) for a, b in pairs)
        return sum(shown) / 400

    assert power(repeats, 1) > 0.74
    if repeats > 5:
        assert power(repeats // 2, 2) < 0.74


@pytest.mark.parametrize(("runs", "spread"), [(2, 0.01), (3, 0.02), (6, 0.03)])
def test_the_power_is_that_of_simulated_pairs(runs: int, spread: float) -> None:
    """Differences of a pair have √2 times the spread of a run; 0.003 is twice a standard error."""
    generator = np.random.default_rng(runs)
    differences = generator.normal(math.log(1.05), math.sqrt(2) * spread, (100_000, runs))
    error = differences.std(axis=1, ddof=1) / math.sqrt(runs)
    quantile = {2: 12.706, 3: 4.303, 6: 2.571}[runs]  # Student's t with runs - 1 degrees of freedom
    shown = differences.mean(axis=1) > quantile * error
    assert power_of(0.05, spread, runs) == pytest.approx(shown.mean(), abs=0.004)
    assert power_of(0.05, 0.0, runs) == 1.0


RULE = Repeats(least=3, most=10, until=0.025, budget_s=100)


def known(half: float | None, runs: int, is_pooled: bool) -> Known:
    high = None if half is None else 1.5 * (1 + half)
    return Known(Interval(1.5, high and 1.4, high), runs, is_pooled)


def test_the_rule_stops_when_the_interval_is_narrow_enough() -> None:
    reason = stop_reason(RULE, known(0.0249, 3, True))
    assert reason == NotNeeded(halfwidth=pytest.approx(0.0249), runs=3, until=0.025)
    assert stop_reason(RULE, known(0.0251, 9, True)) is None
    assert stop_reason(RULE, known(0.02, 4, False)) is None, "a few runs that agree by chance"
    assert stop_reason(RULE, known(0.02, 5, False)) is not None
    assert stop_reason(RULE, known(None, 5, False)) is None, "one run"
    assert stop_reason(RULE, None) is None, "all runs are void"


LONG = pytest.mark.slow_tier("a long simulation")


@pytest.mark.parametrize(
    ("configurations", "tries", "error"),
    [
        (4, 50, 0.02),
        pytest.param(2, 1200, 0.007, marks=LONG),
        pytest.param(4, 400, 0.007, marks=LONG),
    ],
)
def test_intervals_after_the_stopping_rule_cover_93_percent(
    configurations: int, tries: int, error: float
) -> None:
    """Ratios to the first configuration, in rounds that go on until all are known."""
    generator, covered = np.random.default_rng(configurations), []
    rule = Repeats(least=3, most=10, until=0.015, budget_s=None)
    for _ in range(tries):
        spread = np.exp(generator.uniform(np.log(0.01), np.log(0.02), configurations))
        logs = generator.normal(size=(rule.most, configurations)) * spread
        logs += generator.normal(size=(rule.most, 1)) * 0.1
        runs: list[RunValue] = []
        for number in range(rule.most):
            runs += [
                RunValue(key, "d", log, f"{number}", "here", 60.0 * number, in_turns=True)
                for key, log in enumerate(logs[number])
            ]
            estimates = Estimates(runs)
            ratios = [estimates.ratio(key, 0) for key in range(1, configurations)]
            if number + 1 >= rule.least and all(
                stop_reason(rule, Known(ratio, ratio.method.units, ratio.method.pooled > 0))
                for ratio in ratios
            ):
                break
        covered += [ratio.low <= 1 <= ratio.high for ratio in ratios]
    assert np.mean(covered) >= 0.93 - error, "by more than a standard error of the simulation"


@pytest.mark.parametrize(
    "data",
    [
        *(7, {"most": 5}, {"most": 2, "until": 0.1}, {"most": 5, "until": -1}),
        *({"mots": 5, "until": 1}, {"most": 5, "until": True}, {"least": 1, "most": 5, "until": 1}),
    ],
)
def test_invalid_repeats_are_rejected(data) -> None:
    with pytest.raises(ConfigError, match=r"here: .* Fix: correct it"):
        converted(data, Repeats, "here", "correct it.")
