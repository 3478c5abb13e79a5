"""kill -9 of commands that write, at random moments: the same command continues, and nothing that
is half-written counts as done."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from rnnbench.records.store import read_record
from rnnbench.sources.tracked_runs import read_tracked
from rnnbench.workflow.signal_handling import is_running
from tests.conftest import Project, copy_of, make_project, wait_until
from tests.exchange.bundles import bundle, run
from tests.factory import read_pointer

MOMENTS = 10 if os.environ.get("RNNBENCH_FAULTS") == "all" else 2


@pytest.fixture(scope="module")
def measured(measured_small: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = copy_of(measured_small, tmp_path_factory.mktemp("project"))
    assert project.rnnbench("export", "small", "-o", "small.zip").returncode == 0
    return project


def undo_report(project: Project) -> None:
    shutil.rmtree(project.folder / "reports")


def undo_tracking(project: Project) -> None:
    for file in project.folder.glob("mlflow.db*"):
        file.unlink()


def undo_import(project: Project) -> None:
    shutil.rmtree(project.folder / "results/records")
    for pointer in project.pointers("small"):
        pointer.unlink()


def check_report(project: Project, done: bool) -> None:
    page = project.folder / "reports/small/report.html"
    assert page.read_text().endswith("</html>\n") if page.exists() else not done


def check_tracking(project: Project, done: bool) -> None:
    (folder,) = (project.folder / "results").glob("*/small")
    assert not done or len(read_tracked([folder])) == 4


def check_import(project: Project, done: bool) -> None:
    results, pointers = project.folder / "results", project.pointers("small")
    for pointer in pointers:
        read_pointer(results, pointer)
    for record in project.records():
        read_record(record)
    assert not done or len(pointers) == len(project.records()) == 4


COMMANDS = {
    "report": (["report", "small"], undo_report, check_report),
    "track": (["track", "--output", "TRACKED", "ROUNDS"], undo_tracking, check_tracking),
    "import": (["import", "--restore", "small.zip"], undo_import, check_import),
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name,
            marks=pytest.mark.fault(
                f"kill -9 of `rnnbench {name}`, {MOMENTS} moments",
                "nothing half-written counts as done",
                "run the same command",
            ),
        )
        for name in COMMANDS
    ],
)
def test_killed_at_random_moments(measured: Project, name: str) -> None:
    words, undo, check = COMMANDS[name]
    (folder,) = (measured.folder / "results").glob("*/small")
    names = {
        "TRACKED": [str(folder / "tracked/0.json")],
        "ROUNDS": [str(file) for file in sorted((folder / "rounds").glob("*.json"))],
    }
    command = [part for word in words for part in names.get(word, [word])]
    before = {path: path.read_bytes() for path in measured.records()}
    undo(measured)
    begin = time.monotonic()
    assert measured.rnnbench(*command).returncode == 0
    seconds = time.monotonic() - begin
    generator = random.Random(f"{name} 7")
    for _ in range(MOMENTS):
        undo(measured)
        process = subprocess.Popen(
            [sys.executable, "-m", "rnnbench", *command],
            cwd=measured.folder,
            env=measured.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        # Most of the time is spent on imports; files are written at the end.
        time.sleep(generator.uniform(0.3, 1.0) * seconds)
        process.kill()
        process.wait()
        check(measured, done=False)
        again = measured.rnnbench(*command)
        assert again.returncode == 0 and "Traceback" not in again.stderr, again.stderr
        check(measured, done=True)
        assert {path: path.read_bytes() for path in measured.records()} == before


@pytest.mark.fault(
    f"kill -9 of a bundle's run.py, {MOMENTS} moments",
    "its workers die with it; no outcome counts that is not complete",
    "run the same command",
)
def test_bundle_killed_at_random_moments(tmp_path: Path) -> None:
    project = make_project(tmp_path / "home")
    folder = bundle(project, "small", tmp_path / "bundle")
    generator = random.Random("bundle 7")
    for _ in range(MOMENTS):
        process = subprocess.Popen(
            [sys.executable, "-I", str(folder / "run.py")],
            env={"PATH": "/usr/bin:/bin", "RNNBENCH_TIMING_LOCK": str(tmp_path / "timing.lock")},
            stdout=subprocess.DEVNULL,
        )
        time.sleep(generator.uniform(0.5, 5.0))
        workers = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.wait()
        wait_until(lambda: not any(map(is_running, workers)), 10, "the workers' end")  # noqa: B023
        for outcome in folder.glob("out/*/*/outcome.json"):
            json.loads(outcome.read_text())
    assert run(folder).returncode == 0
    assert project.rnnbench("import", str(folder), "--restore").returncode == 0
    records = [read_record(path) for path in project.records()]
    assert len({record.name for record in records if not record.is_companion}) == 4
    assert {record.verdict.status for record in records} <= {"clean", "suspect"}
