"""The forecast of repeats, and the rule that stops them."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from statistics import fmean

import numpy as np
import pytest

from rnnbench.errors import ConfigError, converted
from rnnbench.grid.experiment import Repeats
from rnnbench.planning.forecast import (
    GUESS_SECONDS,
    GUESS_SPREAD,
    OVERHEAD_SECONDS,
    SAMPLE_SECONDS,
    forecast,
    repeats_for,
    run_spread,
)
from rnnbench.planning.repeats import FinishedRun, relative_ci_halfwidth, stop_reason
from rnnbench.tables.stats import mean_interval, welch_halfwidth


def finished(configuration: str, *walls: float) -> list[FinishedRun]:
    return [
        FinishedRun(f"{configuration}-s0-r{i}", wall, wall / 10) for i, wall in enumerate(walls)
    ]


def test_repeats_beyond_the_minimum_take_what_the_budget_leaves() -> None:
    runs = dict.fromkeys(["a-s0-r0", "a-s0-r1", "a-s0-r2"], 0)
    of_run = GUESS_SECONDS + OVERHEAD_SECONDS
    for budget, measured in ((None, 3), (1e9, 3), (1.5 * GUESS_SECONDS, 1.5), (0.0, 1)):
        result = forecast(runs, [], optional={"a-s0-r1", "a-s0-r2"}, budget=budget)
        assert result.seconds == pytest.approx(measured * of_run)


def test_without_finished_runs_the_forecast_is_a_guess() -> None:
    result = forecast({"a-s0-r0": 0, "a-s0-r1": 10}, [])
    assert result.guessed == result.left == 2
    assert result.seconds == 2 * (GUESS_SECONDS + OVERHEAD_SECONDS)
    assert (result.spread, result.degrees_of_freedom) == (GUESS_SPREAD, 0)
    large = forecast({"a-s0-r0": 1_000_000}, [])
    assert large.seconds == 1_000_000 * SAMPLE_SECONDS + OVERHEAD_SECONDS


def test_a_finished_configuration_is_forecast_from_its_own_times() -> None:
    runs = [*finished("a", 10, 12), *finished("b", 100)]
    left = dict.fromkeys(["a-s0-r7", "b-s1-r0", "c-s0-r0"], 0)
    result = forecast(left, runs, sizes=[500, 1500])
    assert result.seconds == pytest.approx(11 + 100 + 55.5 + 3 * 2)
    assert result.guessed == 1
    assert result.bytes == 3000


def test_spread_is_pooled_within_configurations() -> None:
    runs = [*finished("a", 10, 10 * math.exp(0.02)), *finished("b", 90, 90 * math.exp(0.02))]
    spread, freedom = run_spread(runs)
    assert (spread, freedom) == (pytest.approx(0.02 / math.sqrt(2)), 2)


def test_other_runs_of_the_machine_count_if_degrees_of_freedom_are_few() -> None:
    few = finished("a", 10, 11)
    many = [run for name in "bcdef" for run in finished(name, 10, 10 * math.exp(0.02))]
    result = forecast({"a-s0-r2": 0}, few, lambda: many)
    assert (result.degrees_of_freedom, result.borrowed) == (6, True)
    result = forecast({"b-s0-r2": 0}, many, lambda: pytest.fail("called without need"))
    assert (result.spread, result.borrowed) == (pytest.approx(0.02 / math.sqrt(2)), False)


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


def test_the_spread_is_computed_among_comparable_values() -> None:
    """Values relative to a round are comparable only for the same configurations in the round, and
    not with seconds."""
    pair, four = ("a", "b"), ("a", "b", "c", "d")
    values = [(1.01, pair), (1.03, pair), (0.51, four), (0.52, four), (7.0, ()), (9.0, ())]
    runs = [FinishedRun(f"a-s0-r{i}", 1.0, value, by) for i, (value, by) in enumerate(values)]
    spread, freedom = run_spread(runs)
    assert freedom == 2 and 0.01 < spread < 0.02
    alone, freedom = run_spread(runs[4:])
    assert freedom == 1 and alone > 0.1


def test_the_spread_is_that_of_a_member_not_of_its_value_relative_to_the_round() -> None:
    """In a round of two, both values are half of the difference, whose variance is that of both."""
    stream, pair = random.Random(1), ("a", "b")
    differences = [stream.gauss(0, 0.02 * math.sqrt(2)) for _ in range(400)]
    runs = [
        FinishedRun(f"{name}-s0-r{i}", 1.0, math.exp(sign * difference / 2), pair)
        for i, difference in enumerate(differences)
        for name, sign in (("a", 1), ("b", -1))
    ]
    assert run_spread(runs)[0] == pytest.approx(0.02, rel=0.1)


def test_seconds_of_a_round_are_compared_with_those_of_its_members() -> None:
    """Runs with too few turns, on a machine whose state changes by 30 % between rounds."""
    stream, runs, alone = random.Random(1), [], []
    for number in range(200):
        state = stream.gauss(0, 0.3)
        for name, seconds in (("a", 1.0), ("b", 2.0), ("c", 3.0)):
            value = seconds * math.exp(state + stream.gauss(0, 0.02))
            run = FinishedRun(f"{name}-s0-r{number}", 1.0, value, round=f"round {number}")
            runs.append(run)
            alone.append(replace(run, round=f"{name} {number}"))
    assert run_spread(runs)[0] == pytest.approx(0.02, rel=0.1)
    assert run_spread(alone)[0] == pytest.approx(0.3, rel=0.1)


RULE = Repeats(least=3, most=10, until=0.025, budget_s=100)
ALIKE = [1.0, 1.001, 0.999]


def test_the_reason_contains_the_width_or_the_budget() -> None:
    why = stop_reason(RULE, 3, ALIKE, [ALIKE], 50)
    assert why == "it is known to ± 0.25% after 3 runs; required is ± 2.50%"
    assert stop_reason(RULE, 3, ALIKE, [[1.0, 1.3, 0.8]], 50) is None, "the others are noisy"
    assert stop_reason(RULE, 3, ALIKE, [], 50) is None, "no others: at least five runs"
    assert stop_reason(RULE, 5, ALIKE + ALIKE, [], 50)
    assert stop_reason(RULE, 3, [], [ALIKE], 50) is None, "all runs are void"
    assert stop_reason(RULE, 3, [1.0, 2.0], [], 100) == "the budget of 100 s is used up (100 s)"
    assert stop_reason(RULE, 2, ALIKE, [ALIKE], 1e9) is None, "at least three runs"


def test_the_width_is_at_least_that_in_the_report() -> None:
    noisy = [1.0, 1.05, 0.97, 1.01]
    shown = mean_interval(noisy)
    assert relative_ci_halfwidth(noisy, []) == pytest.approx(shown.high / shown.estimate - 1)
    assert relative_ci_halfwidth(noisy, [ALIKE]) == relative_ci_halfwidth(noisy, [])
    assert relative_ci_halfwidth(ALIKE, [noisy]) > relative_ci_halfwidth(ALIKE, []) * 5


def measured(seconds: list[list[float]], rule: Repeats) -> list[list[float]]:
    """The runs of each configuration that the rule does not omit, block by block."""
    runs: list[list[float]] = [[] for _ in seconds]
    for repeat in range(rule.most):
        for number, values in enumerate(seconds):
            others = [*runs[:number], *runs[number + 1 :]]
            if stop_reason(rule, repeat, runs[number], others, 0) is None:
                runs[number].append(values[repeat])
    return runs


@pytest.mark.parametrize("configurations", [1, 3])
def test_intervals_after_the_stopping_rule_cover_93_percent(configurations: int) -> None:
    """A rule that looks at a configuration's own spread only, or stops it alone after three runs,
    covers 91.7 % with this `until`. A larger one stops so early that it hides the difference."""
    generator = np.random.default_rng(configurations)
    rule = Repeats(least=3, most=10, until=0.0125, budget_s=None)
    covered = []
    for _ in range(2400 // configurations):
        spread = np.exp(generator.uniform(np.log(0.01), np.log(0.03), (configurations, 1)))
        logs = generator.normal(size=(configurations, rule.most)) * spread
        for runs in measured(np.exp(logs).tolist(), rule):
            interval = mean_interval(runs)
            covered.append(interval.low <= 1 <= interval.high)
    # 0.005 is a standard error of the simulation.
    assert np.mean(covered) >= 0.93 - 0.005


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
