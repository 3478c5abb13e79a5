"""Finds Python interpreters by version: the running one, then, with uv, those of PATH, pyenv and
uv."""

from __future__ import annotations

import functools
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

from rnnbench.builds.uv import uv_program

VERSION = re.compile(r"\d+\.\d+(\.\d+)?")
OLDEST_OF_UV = (3, 8)
FIND = ("python", "find", "--system", "--python-preference", "system", "--no-python-downloads")
TIMEOUT = 60  # seconds


def is_version(text: str) -> bool:
    """Whether `text` is a Python version such as 3.7 or 3.7.16, not a path or program name."""
    return VERSION.fullmatch(text) is not None


def find(version: str) -> Path | None:
    """An interpreter of that version (3.7 matches any 3.7), or None."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    return _find(version, os.environ.get("PATH", ""), pyenv)


def install_hint(version: str) -> str:
    """The command that installs Python `version`, for messages."""
    hint = f"pyenv install {version}"
    if tuple(map(int, version.split(".")[:2])) >= OLDEST_OF_UV:
        hint += f" (or: uv python install {version})"
    return hint


@functools.cache
def _find(version: str, path: str, pyenv: Path) -> Path | None:
    if f"{platform.python_version()}.".startswith(f"{version}."):
        # The interpreter behind a virtual environment: the environment itself may be deleted.
        return Path(getattr(sys, "_base_executable", sys.executable))
    # pyenv's shims on PATH run only the versions that it has activated.
    found = [each for each in pyenv.glob(f"versions/{version}*") if is_version(each.name)]
    found.sort(key=lambda each: [int(part) for part in each.name.split(".")], reverse=True)
    searched = os.pathsep.join([path, *(str(each / "bin") for each in found)])
    try:
        done = subprocess.run(
            [uv_program(), *FIND, "--no-project", "--no-config", version],
            env={**os.environ, "PATH": searched},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return Path(done.stdout.strip())
