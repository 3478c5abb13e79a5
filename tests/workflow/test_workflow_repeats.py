"""Adaptive repeats: of an experiment, and of two choices that `rnnbench compare` measures."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import psutil

from tests.conftest import ROOT, Project, descendants, wait_until

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
    assert (
        "[3/3] not measured: the budget of 0 s is used up" in first.stderr
        and "no record" not in first.stderr
    )
    assert len(project.records()) == 4 and len(project.finished("adaptive")) == 6
    page = (project.folder / "reports/adaptive/report.md").read_text()
    assert "Not measured: 2 planned repeats" in page and "without a record" not in page

    again = project.snakemake("-n", experiment="adaptive")
    assert "Nothing to be done" in again.stdout + again.stderr

    file.write_text(ADAPTIVE.format(budget=1e6))
    third = project.snakemake(experiment="adaptive")
    assert third.returncode == 0, third.stderr
    assert len(project.records()) == 6 and "were not " not in third.stderr

    retried = project.rnnbench("retry", "adaptive", "*-r0")
    assert "2 of 6" in retried.stdout


def comparable(project: Project) -> list[str]:
    """Arguments of a comparison of two fake implementations, which `project` can then measure."""
    shutil.copytree(ROOT / "tests/conf", project.folder / "conf", dirs_exist_ok=True)
    (project.folder / "workflow").symlink_to(ROOT / "workflow")
    project.prepare()
    kernel = project.conf / "rnn/mine.yaml"
    (project.conf / "rnn/fake_middle.yaml").rename(kernel)
    return ["compare", "fake_fast", str(kernel), "model=fake", "build=fake", "--budget", "0.02"]


def test_compare_measures_two_choices(project: Project) -> None:
    words = [*comparable(project), "--json", "table.json"]
    done = project.rnnbench(*words, "--fail-if", "mine>0.9")
    assert done.returncode == 0, done.stdout + done.stderr
    # With daggers or "no difference shown" on a busy host.
    answer, _, page = done.stdout.splitlines()[-3:]
    assert re.search("`fake_fast` trains .* as fast as `mine` [(]", answer)
    assert page.startswith("The page: reports/fake_fast-mine+")
    (row,) = json.loads((project.folder / "table.json").read_text())
    assert row["a"] == "fake_fast" and 1.2 < row["ratio"] < 3.5, "2 on a quiet host"
    records = project.records()
    assert len(records) >= 6 and list(project.folder.glob("reports/fake_fast-mine+*/report.html"))

    again = project.rnnbench(*words, "--fail-if", "fake_fast>0.2")
    assert again.returncode == 1 and again.stderr.endswith("--fail-if: 'fake_fast>0.2' holds.\n")
    assert project.records() == records, "nothing was measured again"

    (text,) = (file.read_text() for file in project.folder.glob("reports/fake_fast-mine+*/*.md"))
    assert f"- Repeat it: `{shlex.join(['rnnbench', *words[:-2]])}`" in text

    # Snakemake finds everything done.
    (experiment,) = project.folder.glob("results/compare/*.yaml")
    workflow = project.rnnbench("run", str(experiment), *words[3:7])
    assert workflow.returncode == 0, workflow.stderr
    assert project.records() == records


def test_a_comparison_that_was_killed_continues(project: Project) -> None:
    """Killed when so many records exist, each time; none is lost or changed."""
    words = [sys.executable, "-m", "rnnbench", *comparable(project)]
    kept: dict[Path, bytes] = {}
    for least in (1, 3, 5):
        begun = subprocess.Popen(
            words,
            cwd=project.folder,
            env=project.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(lambda: len(project.records()) >= least, 60, "records")  # noqa: B023
        started = set(descendants(begun.pid))
        begun.kill()
        begun.wait()
        wait_until(lambda: not started & set(psutil.pids()), 20, "the end")  # noqa: B023
        assert {file: file.read_bytes() for file in kept} == kept
        kept = {file: file.read_bytes() for file in project.records()}

    done = project.rnnbench(*words[3:])
    assert done.returncode == 0, done.stderr
    assert {file: file.read_bytes() for file in kept} == kept
    names = [file.parent.name for file in project.records()]
    assert len(names) >= 6 and len(names) - len(set(names)) <= 3, "a half round is measured again"
