"""kill -9 of commands that write, at random moments: the same command continues, and nothing that
is half-written counts as done."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from rnnbench.records.store import read_record
from rnnbench.workflow.signal_handling import is_running
from tests.conftest import Project, copy_of, make_project, wait_until
from tests.exchange.bundles import bundle, run
from tests.faults.matrix import rows
from tests.faults.test_faults_disk import ALL, PHASES, Phase, exported, has_records

MOMENTS = 10 if ALL else 1


@pytest.fixture(scope="module")
def measured(measured_small: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = copy_of(measured_small, tmp_path_factory.mktemp("project"))
    return exported(project, project.folder)


COMMANDS = {
    "report": "the report is written",
    "track": "runs are logged to MLflow",
    "import": "records are imported",
}


def is_whole(project: Project, phase: Phase) -> bool:
    """Whether what a kill has left is complete, or does not count as done."""
    if phase.complete is has_records:
        root = project.folder / "results"
        results = project.finished("small").values() if project.rounds("small") else []
        records = [read_record(file) for file in project.records()]
        return all(result.is_valid(root, None) for result in results) and all(records)
    return not list(project.folder.glob(phase.files[0])) or phase.complete(project)


@rows(
    "name",
    {name: (name,) for name in COMMANDS},
    f"kill -9 of `rnnbench {{}}`, {MOMENTS} moments",
    "nothing half-written counts as done",
    "run the same command",
)
def test_killed_at_random_moments(measured: Project, name: str) -> None:
    phase = PHASES[COMMANDS[name]]
    before = {path: path.read_bytes() for path in measured.records()}
    phase.undo(measured)
    command, begin = phase.arguments(measured), time.monotonic()
    assert measured.rnnbench(*command).returncode == 0
    seconds = time.monotonic() - begin
    generator = random.Random(f"{name} 7")
    for _ in range(MOMENTS):
        phase.undo(measured)
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
        assert is_whole(measured, phase)
        again = measured.rnnbench(*command)
        assert again.returncode == 0 and "Traceback" not in again.stderr, again.stderr
        assert phase.complete(measured)
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
