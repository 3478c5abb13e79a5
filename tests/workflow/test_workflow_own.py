"""What users add: own kernels, as ``docs/own_kernel.md`` says; an axis, a quantity and a table, as
CONTRIBUTING.md says; and names that a shell would execute."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rnnbench.records.store import read_json, read_record
from tests.conftest import ROOT, Project, make_project
from tests.outside.attacks import ESCAPE, HTML, RIGHT_TO_LEFT
from tests.worker.building import build_python, write_digits

PAGE = (ROOT / "docs" / "own_kernel.md").read_text()
FILES = dict(re.findall(r"^`(\w+\.\w+)`:\n\n```\w+\n(.*?)^```", PAGE, re.S | re.M))
COMMANDS = re.findall(r"^rnnbench run quick (.*)$", PAGE, re.M)
SMALL = "repeat=0 model.epochs=2 +model.train_samples=256 measure.warmup_steps=2"


def test_the_kernels_on_the_page_are_short() -> None:
    both = {f"{name}_lstm.{ending}" for name in ("scan", "loop") for ending in ("yaml", "py")}
    assert set(FILES) == {*both, "joint_lstm.py"}
    for name in ("scan_lstm.py", "loop_lstm.py"):
        assert len(FILES[name].split("class Kernel:")[1].splitlines()) < 20
    assert all(len(text.splitlines()) < 40 for text in FILES.values())
    assert len(COMMANDS) == 2


@pytest.mark.parametrize(
    ("kernel", "build", "runs"),
    [("scan_lstm", None, ["while"]), ("loop_lstm", "keras3_torch", ["torch:loop"])],
)
def test_a_kernel_of_the_page(
    kernel: str,
    build: str | None,
    runs: list[str],
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    project = make_project(tmp_path / "project")
    if build:
        shutil.copytree(ROOT / "workflow" / "envs", project.folder / "workflow" / "envs")
        environment = build_python(build, "3.11", tmp_path_factory).parents[1]
        environments = project.folder / "results" / "envs"
        environments.mkdir(parents=True)
        (environments / environment.name).symlink_to(environment)
    home = tmp_path / "me"
    home.mkdir()
    for name, text in FILES.items():
        (home / name).write_text(text)
    (overrides,) = (text for text in COMMANDS if kernel in text)
    overrides = overrides.replace("/home/me", str(home))
    result = project.snakemake(experiment="quick", overrides=f"{overrides} {SMALL}")
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-4000:]

    (path,) = project.folder.glob("results/*/quick+*/certificates/*.json")
    certificate = read_json(path)
    entry = certificate["implementations"][kernel]
    assert (entry["status"], entry["why"], entry["kernel"]) == ("certified", None, runs)
    assert [pair["equal"] for pair in certificate["pairs"]] == [True]
    records = {record.run.choices["rnn"]: record for record in map(read_record, project.records())}
    assert set(records) == {"keras", kernel}
    assert records[kernel].verdict.status != "void", records[kernel].verdict
    assert len(records[kernel].epochs) == 2
    assert records[kernel].round.id == records["keras"].round.id, "they took turns"
    (report,) = project.folder.glob("reports/quick+*/report.md")
    assert kernel.replace("_", "\\_") in report.read_text()
    assert not (project.folder / "reports/quick").exists(), "overrides are another experiment"


EXPERIMENT = """
title: Clipped
grids:
  - >-
    model=fake build=fake rnn=fake_middle,fake_fast clipping=none,norm_1
    device=cpu_1
reference: {rnn: fake_middle}
"""
# Patch → the most files that it may touch.
PATCHES = {"axis": 4, "quantity": 3, "table": 3}


def test_a_new_axis_quantity_and_table_reach_the_report(project: Project) -> None:
    """In a project with a copy of the code, to which the patches have been applied."""
    project.prepare()
    for name in ("src", "workflow", "reports/published"):
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(ROOT / name, project.folder / name, ignore=ignored)
    shutil.copy(ROOT / "environment.yml", project.folder)
    for name, files in PATCHES.items():
        patch = ROOT / f"tests/patches/{name}.patch"
        assert patch.read_text().count("diff --git") <= files
        subprocess.run(
            ["git", "apply", str(patch)], cwd=project.folder, check=True,
            env={**project.environment, "GIT_CEILING_DIRECTORIES": str(project.folder.parent)},
        )  # fmt: skip
    project.environment["PYTHONPATH"] = str(project.folder / "src")
    (project.conf / "experiment/clipped.yaml").write_text(EXPERIMENT)
    config = ["experiment=clipped", f"conf={project.conf}"]
    # The Snakefile is the copy's.
    result = project.run([sys.executable, "-m", "snakemake", "--cores=2", "--config", *config])
    assert result.returncode == 0, result.stdout + result.stderr
    records = [read_json(path) for path in project.records()]
    chosen = sorted(record["run"]["choices"].get("clipping", "") for record in records)
    assert chosen == [""] * 2 + ["norm_1"] * 2
    assert all(record["measured"]["context_switches"] >= 0 for record in records)
    tables = project.folder / "reports/clipped/tables"
    memory, runs = (rows(tables / f"{name}.csv") for name in ("memory", "runs"))
    assert sorted(row["clipping"] for row in memory) == ["", "", "norm_1", "norm_1"]
    assert all(float(row["mebibytes"]) > 1 for row in memory)
    assert all(float(row["context_switches"]) >= 0 for row in runs)
    page = (project.folder / "reports/clipped/report.html").read_text()
    assert "Peak memory" in page and "switches" in page
    assert "fake (norm_1)" in result.stdout


def test_an_experiment_for_other_machines_shows_what_others_published(project: Project) -> None:
    """Unless this machine has a K80 or a P100."""
    published = project.folder / "reports/published"
    shutil.copytree(ROOT / "reports/published", published)
    for _ in range(2):  # then there is nothing to do
        result = project.snakemake(experiment="k80_p100")
        assert result.returncode == 3, result.stdout + result.stderr
        assert "rnnbench: none of the 24 grid points can run on this machine" in result.stderr
        assert "rnnbench: the report is reports/k80_p100/report.html" in result.stderr
    page = (project.folder / "reports/k80_p100/report.html").read_text()
    assert "CuDNNLSTM" in page and "12.5×" in page
    assert not project.records()


def rows(file: Path) -> list[dict[str, str]]:
    with file.open() as text:
        return list(csv.DictReader(text))


HOSTILE = {
    "model": "-x;touch made",
    "rnn": "a'b\"$(touch made)`touch made`",
    "device": ".d e|touch made",
    "build": f"b{RIGHT_TO_LEFT}{{x}}%s",
}
USED = {"model": "fake", "rnn": "fake_fast", "device": "pretend_slow", "build": "fake"}


def test_nothing_is_executed_and_everything_is_measured(project: Project) -> None:
    """A job whose command has any character that a shell reads is started by it."""
    project.prepare()
    for group, name in HOSTILE.items():
        folder = project.conf / group
        shutil.copy(folder / f"{USED[group]}.yaml", folder / f"{name}.yaml")
    words = [f"{group}='{name}'".replace("a'b", r"a\'b") for group, name in HOSTILE.items()]
    write_digits(project.folder / "data/mine.npz", 44, 20)  # next to pinned files
    words += ["dataset=file", "dataset.path=../../data/mine.npz"]
    experiment = {"title": f"$(touch made){HTML}{ESCAPE}", "grids": [words]}
    (project.conf / "experiment/mine.yaml").write_text(json.dumps(experiment))
    result = project.snakemake(experiment="mine")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "Traceback" not in result.stderr and "\x1b[2J" not in result.stdout + result.stderr
    assert len(project.records()) == len(project.finished("mine")) == 1
    assert "<script>alert" not in (project.folder / "reports/mine/report.html").read_text()
    exported = project.rnnbench("export", "mine", "-o", "mine.tar.gz")
    assert exported.returncode == 0, exported.stderr
    assert not list(project.folder.rglob("made"))
