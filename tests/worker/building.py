"""Pythons of locked builds, for tests that need the real framework."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rnnbench.builds.environments import make
from rnnbench.builds.interpreters import find
from rnnbench.builds.pins import LOCKS, Pins, pins
from rnnbench.errors import BuildError
from tests.conftest import ROOT


def build_python(build: str, version: str, temporary: pytest.TempPathFactory) -> Path:
    """The Python `version` of `build`'s environment: this checkout's, or one made from the lock.
    Skips where that Python or the packages cannot be had."""
    if find(version) is None:
        pytest.skip(f"no Python {version} on this machine: pyenv install {version}")
    wanted = pins(ROOT / LOCKS / f"{build}.lock", version, None)
    home = ROOT
    if not (wanted.folder(ROOT) / "rnnbench.json").exists():
        home = temporary.getbasetemp()
        if "PYTEST_XDIST_WORKER" in os.environ:
            home = home.parent  # once for all of this session's processes: `make` takes a lock
        made_or_skipped(wanted, home)
    return wanted.folder(home) / "bin" / "python"


def made_or_skipped(wanted: Pins, home: Path) -> None:
    """Makes the environment `wanted` below `home`; skips where its packages cannot be had."""
    try:
        make(wanted, home)
    except BuildError as error:
        if "connect" in str(error).lower() or "fetch" in str(error).lower():
            pytest.skip(f"the packages cannot be had: {error}")
        raise


def answer(
    python: Path | str, script: str, *arguments: object, timeout: float = 300, **variables: str
) -> Any:
    """What the `script` says as JSON in its last line, run by the interpreter `python` with the
    worker's code importable and these environment variables."""
    done = subprocess.run(
        [python, "-W", "ignore", "-c", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **variables},
        timeout=timeout,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])
