"""Runs uv and other programs that builds need.

uv does not read pip's configuration, so pip's ``find-links`` (a folder of wheels) is passed to it
at run time; no file of the project contains it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from rnnbench.errors import BuildError

LAST_LINES = 12


def uv_program() -> str:
    """The uv next to the running interpreter, else the one on PATH."""
    local = Path(sys.executable).parent / "uv"
    return str(local) if local.exists() else shutil.which("uv") or "uv"


def run_uv(arguments: Sequence[str], *, where: str, remedy: str) -> None:
    """Runs uv. Raises `BuildError` with the last lines of its output."""
    run([uv_program(), *arguments], where=where, remedy=remedy, environment=_environment())


def run(
    command: Sequence[str],
    *,
    where: str,
    remedy: str,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Runs a command. Raises `BuildError` with the last lines of its output."""
    try:
        subprocess.run(
            command,
            env=environment,
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


def _environment() -> dict[str, str]:
    """The current variables without those that point uv or Python to another environment."""
    variables = {
        name: value
        for name, value in os.environ.items()
        if name not in ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "CONDA_PREFIX")
    }
    links = os.environ.get("UV_FIND_LINKS") or _pip_find_links()
    if links:
        variables["UV_FIND_LINKS"] = links
    return variables


def _pip_find_links() -> str:
    """pip's ``find-links`` from its variable or configuration, separated by commas as for uv."""
    links = os.environ.get("PIP_FIND_LINKS") or ""
    if not links:
        command = [sys.executable, "-m", "pip", "config", "get", "global.find-links"]
        links = subprocess.run(command, capture_output=True, text=True).stdout
    return ",".join(links.split())
