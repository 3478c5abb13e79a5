"""An experiment with adaptive repeats."""

from __future__ import annotations

from tests.conftest import Project

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
