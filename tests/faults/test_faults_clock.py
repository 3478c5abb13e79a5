"""The clock was ahead, and a file system has no locks."""

from __future__ import annotations

import os
import shutil
import subprocess
from datetime import UTC, datetime

import pytest

from tests.conftest import Project

AHEAD = datetime(2040, 1, 1, tzinfo=UTC)
NO_LOCKS = "#include <errno.h>\nint flock(int f, int o) { errno = ENOLCK; return -1; }\n"


@pytest.mark.fault(
    "the clock is ahead, and set back before the next start",
    "nothing is measured twice; Snakemake names files of the future if runs changed",
    "touch the files",
)
def test_starts_after_the_clock_was_ahead(small: Project) -> None:
    project = small
    before = {path: path.read_bytes() for path in project.records()}
    for folder in ("data", "results", "reports"):
        for path in (project.folder / folder).rglob("*"):
            os.utime(path, (AHEAD.timestamp(), AHEAD.timestamp()), follow_symlinks=False)
    again = project.snakemake(experiment="small")
    assert again.returncode == 0, again.stderr
    assert {path: path.read_bytes() for path in project.records()} == before

    changed = project.conf / "rnn/fake_fast.yaml"
    changed.write_text(changed.read_text().replace("epoch_seconds: 0.10", "epoch_seconds: 0.12"))
    skewed = project.snakemake("--until", "rounds", experiment="small")
    assert skewed.returncode == 1 and "Traceback" not in skewed.stderr
    assert "older modification time" in skewed.stderr and "data/digits.npz" in skewed.stderr
    measured = {path: path.read_bytes() for path in project.records()}
    assert len(measured) == 8 and measured | before == measured

    for path in (project.folder / "data").iterdir():
        path.touch()
    for path in (project.folder / "results").rglob("*.json"):
        path.touch()
    done = project.snakemake("--until", "rounds", experiment="small")
    assert done.returncode == 0, done.stderr
    assert {path: path.read_bytes() for path in project.records()} == measured


@pytest.fixture
def without_locks(project: Project) -> Project:
    """The project, whose commands get ENOLCK from flock(2)."""
    if shutil.which("cc") is None:
        pytest.skip("a C compiler is needed to replace flock(2)")
    library = project.folder / "no_locks.so"
    command = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(library)]
    subprocess.run(command, input=NO_LOCKS, text=True, check=True)
    project.environment["LD_PRELOAD"] = str(library)
    return project


@pytest.mark.fault(
    "the file system has no locks", "one line; nothing is measured", "use one with flock"
)
def test_a_file_system_without_locks(without_locks: Project) -> None:
    commands = (["dataset", "digits"], ["import", "x.tar.gz"], ["track"])
    results = [without_locks.rnnbench(*command) for command in commands]
    results.append(without_locks.snakemake(experiment="small"))
    for result in results:
        assert result.returncode == 1, result.stderr
        (line,) = [line for line in result.stderr.splitlines() if line.startswith("rnnbench: ")]
        assert "its file system cannot lock files (No locks available). Fix: " in line
        assert "Traceback" not in result.stderr
    assert not without_locks.records()
