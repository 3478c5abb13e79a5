"""A bundle, made here and started as on another machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.conftest import Project


def bundle(project: Project, experiment: str, folder: Path, *arguments: str) -> Path:
    """A bundle of the `experiment` in `folder`."""
    conf = str(project.conf)
    made = project.rnnbench("bundle", experiment, "-o", str(folder), "--conf", conf, *arguments)
    assert made.returncode == 0, made.stderr
    return folder


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    """Starts the bundle with an environment that leads nowhere near this project, and a timing
    lock of its own: nothing is measured."""
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
