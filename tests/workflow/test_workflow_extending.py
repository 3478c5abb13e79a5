"""The examples of CONTRIBUTING.md, "Adding things", work, and touch few files."""

from __future__ import annotations

import csv
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rnnbench.records.store import read_json
from tests.conftest import ROOT, Project

EXPERIMENT = """
title: Clipped
probe: false
grids:
  - >-
    model=fake build=fake rnn=fake_middle,fake_fast clipping=none,norm_1
    device=cpu_1 repeat=range(2)
reference: {rnn: fake_middle}
"""


@pytest.fixture
def extended(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with a copy of the code, to which the patches have been applied."""
    for name in ("src", "workflow", "reports/published"):
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(ROOT / name, project.folder / name, ignore=ignored)
    shutil.copy(ROOT / "environment.yml", project.folder)
    for patch in sorted((ROOT / "tests/patches").glob("*.patch")):
        subprocess.run(
            ["git", "apply", str(patch)], cwd=project.folder, check=True,
            env={**project.environment, "GIT_CEILING_DIRECTORIES": str(project.folder.parent)},
        )  # fmt: skip
    project.environment["PYTHONPATH"] = str(project.folder / "src")
    (project.conf / "experiment/clipped.yaml").write_text(EXPERIMENT)
    return project


@pytest.mark.parametrize(("name", "most"), [("axis", 5), ("quantity", 4), ("table", 2)])
def test_an_addition_touches_few_files(name: str, most: int) -> None:
    text = (ROOT / f"tests/patches/{name}.patch").read_text()
    assert 0 < len(re.findall(r"^diff --git", text, re.MULTILINE)) <= most


def test_a_new_axis_quantity_and_table_reach_the_report(extended: Project) -> None:
    folder = extended.folder
    result = subprocess.run(
        [sys.executable, "-m", "snakemake", "--cores", "2", "--config", "experiment=clipped",
         f"conf={extended.conf}"],
        cwd=folder, env=extended.environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    records = [read_json(path) for path in extended.records()]
    chosen = sorted(record["run"]["choices"].get("clipping", "") for record in records)
    assert chosen == [""] * 4 + ["norm_1"] * 4
    assert all(record["measured"]["context_switches"] >= 0 for record in records)
    tables = folder / "reports/clipped/tables"
    memory, runs = (rows(tables / f"{name}.csv") for name in ("memory", "runs"))
    assert sorted(row["clipping"] for row in memory) == ["", "", "norm_1", "norm_1"]
    assert all(float(row["mebibytes"]) > 1 for row in memory)
    assert all(float(row["context_switches"]) >= 0 for row in runs)
    page = (folder / "reports/clipped/report.html").read_text()
    assert "Peak memory" in page and "switches" in page
    assert "fake (norm_1)" in result.stdout


def rows(file: Path) -> list[dict[str, str]]:
    with file.open() as text:
        return list(csv.DictReader(text))
