"""Runs uv and other programs that builds need, and finds Pythons: the running one, then, with uv,
those of PATH, pyenv and uv.

uv does not read pip's configuration, so pip's ``find-links`` (a folder of wheels) is passed to it
at run time; no file of the project contains it.
"""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from rnnbench.errors import BuildError

LAST_LINES = 12
VERSION = re.compile(r"\d+\.\d+(\.\d+)?")
OLDEST_OF_UV = (3, 8)
FIND = ("python", "find", "--system", "--python-preference", "system", "--no-python-downloads")
TIMEOUT = 60  # seconds


def uv_program() -> str:
    """The uv next to the running interpreter, else the one on PATH.

    Its name if there is none, so that the error names it.
    """
    local = Path(sys.executable).parent / "uv"
    if local.exists():
        return str(local)
    return shutil.which("uv") or "uv"


def run(command: Sequence[str], *, where: str, remedy: str) -> None:
    """Runs a command without the variables that lead to another environment.

    `where`, `remedy`: of the `BuildError` if it fails, which has the last lines of its output.
    """
    others = ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "CONDA_PREFIX")
    variables = {name: value for name, value in os.environ.items() if name not in others}
    links = os.environ.get("UV_FIND_LINKS") or _pip_find_links()
    if links:
        variables["UV_FIND_LINKS"] = links
    try:
        subprocess.run(
            command,
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        lines = (error.stderr or error.stdout).strip().splitlines()[-LAST_LINES:]
        message = f"{Path(command[0]).name}: {' '.join(lines)}."
        raise BuildError(message, where=where, remedy=remedy) from error
    except OSError as error:
        raise BuildError(f"{command[0]}: {error}.", where=where, remedy=remedy) from error


@functools.cache
def _pip_find_links() -> str:
    """pip's ``find-links`` from its variable or configuration, separated by commas as for uv."""
    links = os.environ.get("PIP_FIND_LINKS") or ""
    if not links:
        command = [sys.executable, "-m", "pip", "config", "get", "global.find-links"]
        links = subprocess.run(command, capture_output=True, text=True).stdout
    return ",".join(links.split())


def is_version(text: str) -> bool:
    """Whether `text` is a Python version such as 3.7 or 3.7.16, not a path or program name."""
    return VERSION.fullmatch(text) is not None


def find(version: str) -> Path | None:
    """An interpreter of that version, or None.

    `version`: 3.7 matches any 3.7.
    """
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    return _find(version, os.environ.get("PATH", ""), pyenv)


def install_hint(version: str) -> str:
    """The command that installs Python `version`, for messages.

    uv has Python 3.8 and later.
    """
    hint = f"pyenv install {version}"
    if tuple(map(int, version.split(".")[:2])) >= OLDEST_OF_UV:
        hint += f" (or: uv python install {version})"
    return hint


@functools.cache
def _find(version: str, path: str, pyenv: Path) -> Path | None:
    """`find`, for these folders of PATH and this folder of pyenv."""
    if f"{platform.python_version()}.".startswith(f"{version}."):
        # The interpreter behind a virtual environment: the environment itself may be deleted.
        return Path(getattr(sys, "_base_executable", sys.executable))

    # pyenv's shims on PATH run only the versions that it has activated.
    alike = []
    with contextlib.suppress(OSError):  # one that this user may not read has nothing for it
        names = os.listdir(pyenv / "versions")
        alike = [name for name in names if is_version(name) and name.startswith(version)]
    alike.sort(key=lambda name: [int(part) for part in name.split(".")], reverse=True)

    searched = [path]
    for name in alike:
        searched.append(str(pyenv / "versions" / name / "bin"))
    try:
        done = subprocess.run(
            [uv_program(), *FIND, "--no-project", "--no-config", version],
            env={**os.environ, "PATH": os.pathsep.join(searched)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return Path(done.stdout.strip())
