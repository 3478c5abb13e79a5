"""Interpreters of locked builds, for tests that need the real framework."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rnnbench.builds.environments import make
from rnnbench.builds.pins import LOCKS, Pins, pins
from rnnbench.builds.uv import find
from rnnbench.errors import BuildError
from tests.conftest import ROOT


def build_python(build: str, version: str, temporary: pytest.TempPathFactory) -> Path:
    """Returns the interpreter of `build`'s environment with Python `version`, in this checkout or
    made from the lock. Skips the test if that Python or the packages are unavailable."""
    if find(version) is None:
        pytest.skip(f"no Python {version} on this machine: pyenv install {version}")
    wanted = pins(ROOT / LOCKS / f"{build}.lock", version, None)
    home = ROOT
    if not (wanted.folder(ROOT) / "rnnbench.json").exists():
        home = temporary.getbasetemp()
        if "PYTEST_XDIST_WORKER" in os.environ:
            home = home.parent  # shared by all processes of the session; `make` takes a lock
        made_or_skipped(wanted, home)
    return wanted.folder(home) / "bin" / "python"


def made_or_skipped(wanted: Pins, home: Path) -> None:
    """Makes the environment `wanted` below `home`; skips the test if packages are unavailable."""
    try:
        make(wanted, home)
    except BuildError as error:
        if "connect" in str(error).lower() or "fetch" in str(error).lower():
            pytest.skip(f"the packages are unavailable: {error}")
        raise


def answer(
    python: Path | str, script: str, *arguments: object, timeout: float = 300, **variables: str
) -> Any:
    """Runs `script` with the interpreter `python`, the worker's code on its path, and these
    environment variables; returns its last line of output, parsed as JSON."""
    done = subprocess.run(
        [python, "-W", "ignore", "-c", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **variables},
        timeout=timeout,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])
