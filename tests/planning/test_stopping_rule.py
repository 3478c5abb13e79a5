from __future__ import annotations

import numpy as np
import pytest

from rnnbench.errors import ConfigError, converted
from rnnbench.grid.experiment import Repeats
from rnnbench.planning.forecast import relative_ci_halfwidth, stop_reason
from rnnbench.tables.stats import mean_interval
from tests.conftest import Project

RULE = Repeats(least=3, most=10, until=0.025, budget_s=100)
ALIKE = [1.0, 1.001, 0.999]


def test_the_minimum_number_of_runs_is_always_measured() -> None:
    assert stop_reason(RULE, 2, ALIKE, [ALIKE], 1e9) is None


def test_the_reason_contains_the_width_or_the_budget() -> None:
    why = stop_reason(RULE, 3, ALIKE, [ALIKE], 50)
    assert why == "it is known to ± 0.25% after 3 runs; required is ± 2.50%"
    assert stop_reason(RULE, 3, ALIKE, [[1.0, 1.3, 0.8]], 50) is None, "the others are noisy"
    assert stop_reason(RULE, 3, ALIKE, [], 50) is None, "no others: at least five runs"
    assert stop_reason(RULE, 5, ALIKE + ALIKE, [], 50)
    assert stop_reason(RULE, 3, [], [ALIKE], 50) is None, "all runs are void"
    assert stop_reason(RULE, 3, [1.0, 2.0], [], 100) == "the budget of 100 s is used up (100 s)"


def test_the_width_is_at_least_that_in_the_report() -> None:
    noisy = [1.0, 1.05, 0.97, 1.01]
    shown = mean_interval(noisy)
    assert relative_ci_halfwidth(noisy, []) == pytest.approx(shown.high / shown.estimate - 1)
    assert relative_ci_halfwidth(noisy, [ALIKE]) == relative_ci_halfwidth(noisy, [])
    assert relative_ci_halfwidth(ALIKE, [noisy]) > relative_ci_halfwidth(ALIKE, []) * 5


@pytest.mark.parametrize("configurations", [1, 2, 6])
@pytest.mark.parametrize("until", [0.0125, 0.025, 0.05])
def test_intervals_after_the_stopping_rule_cover_93_percent(
    configurations: int, until: float
) -> None:
    generator = np.random.default_rng(configurations)
    rule = Repeats(least=3, most=10, until=until, budget_s=None)
    covered = []
    for _ in range(900 // configurations):
        spread = np.exp(generator.uniform(np.log(0.01), np.log(0.03), (configurations, 1)))
        logs = generator.normal(size=(configurations, rule.most)) * spread
        for runs in measured(np.exp(logs).tolist(), rule):
            interval = mean_interval(runs)
            covered.append(interval.low <= 1 <= interval.high)
    # 0.014 is two standard errors of the simulation.
    assert np.mean(covered) >= 0.93 - 0.014


def measured(seconds: list[list[float]], rule: Repeats) -> list[list[float]]:
    """The runs of each configuration that the rule does not omit, block by block."""
    runs: list[list[float]] = [[] for _ in seconds]
    for repeat in range(rule.most):
        for number, values in enumerate(seconds):
            others = [*runs[:number], *runs[number + 1 :]]
            if stop_reason(rule, repeat, runs[number], others, 0) is None:
                runs[number].append(values[repeat])
    return runs


@pytest.mark.parametrize(
    "data",
    [7, {"most": 5}, {"most": 2, "until": 0.1}, {"most": 5, "until": -1}, {"mots": 5, "until": 1},
     {"most": 5, "until": True}, {"least": 1, "most": 5, "until": 1}],
)  # fmt: skip
def test_invalid_repeats_are_rejected(data) -> None:
    with pytest.raises(ConfigError, match=r"here: .* Fix: correct it"):
        converted(data, Repeats, "here", "correct it.")


ADAPTIVE = """
title: adaptive
grids:
  - model=fake build=fake rnn=fake_fast,fake_middle device=cpu_1 rnn.fake.epoch_seconds=0.02
reference: {{rnn: fake_middle}}
repeats: {{least: 2, most: 3, budget_s: {budget}}}
"""


def test_a_workflow_omits_repeats_that_are_not_needed(project: Project) -> None:
    file = project.conf / "experiment/adaptive.yaml"
    file.write_text(ADAPTIVE.format(budget=0.001))
    first = project.snakemake(experiment="adaptive")
    assert first.returncode == 0, first.stderr
    assert "2 of 6 runs were not needed" in first.stderr and "no record" not in first.stderr
    assert len(project.records()) == 4 and len(project.pointers("adaptive")) == 6
    page = (project.folder / "reports/adaptive/report.md").read_text()
    assert "Not needed: 2 planned repeats" in page and "without a record" not in page

    again = project.snakemake("-n", experiment="adaptive")
    assert "Nothing to be done" in again.stdout + again.stderr

    file.write_text(ADAPTIVE.format(budget=1e6))
    third = project.snakemake(experiment="adaptive")
    assert third.returncode == 0, third.stderr
    assert len(project.records()) == 6 and "were not needed" not in third.stderr

    retried = project.rnnbench("retry", "adaptive", "*-r0")
    assert "2 of 6" in retried.stdout
