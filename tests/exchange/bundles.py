"""Makes bundles and runs them as on another machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.conftest import Project


def bundle(project: Project, experiment: str, folder: Path, *arguments: str) -> Path:
    """Writes a bundle of the `experiment` into `folder`."""
    conf = str(project.conf)
    result = project.rnnbench("bundle", experiment, "-o", str(folder), "--conf", conf, *arguments)
    assert result.returncode == 0, result.stderr
    return folder


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    """Runs the bundle in an environment without this project, and with a separate timing lock."""
    return subprocess.run(
        [sys.executable, "-I", str(folder / "run.py"), *arguments],
        capture_output=True,
        text=True,
        cwd="/",
        env={
            "PATH": "/usr/bin:/bin",
            "RNNBENCH_TIMING_LOCK": str(folder.parent / "timing.lock"),
        },
    )
