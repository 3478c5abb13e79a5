"""uv, and what it is told about where packages lie.

uv does not read pip's configuration: a folder of wheels that pip finds (``find-links``) is
handed on to it at run time, and stands in no file of the project.
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
    """The uv beside the running interpreter, else the one on PATH."""
    beside = Path(sys.executable).parent / "uv"
    return str(beside) if beside.exists() else shutil.which("uv") or "uv"


def run_uv(
    arguments: Sequence[str], *, where: str, remedy: str, extra: Mapping[str, str] | None = None
) -> None:
    """Runs uv. Raises `BuildError` with what it said last."""
    run([uv_program(), *arguments], where=where, remedy=remedy, environment=_environment(extra))


def run(
    command: Sequence[str],
    *,
    where: str,
    remedy: str,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Runs a command that makes something. Raises `BuildError` with what it said last."""
    try:
        subprocess.run(
            command,
            env=None if environment is None else dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        said = " ".join((error.stderr or error.stdout).strip().splitlines()[-LAST_LINES:])
        raise BuildError(f"{Path(command[0]).name}: {said}.", where=where, remedy=remedy) from error
    except OSError as error:
        raise BuildError(f"{command[0]}: {error}.", where=where, remedy=remedy) from error


def _environment(extra: Mapping[str, str] | None) -> dict[str, str]:
    """Ours without what would lead uv or the new Python to another environment."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "CONDA_PREFIX")
    }
    links = os.environ.get("UV_FIND_LINKS") or _pip_find_links()
    if links:
        kept["UV_FIND_LINKS"] = links
    return {**kept, **(extra or {})}


def _pip_find_links() -> str:
    """pip's ``find-links``, from its variable or its configuration; uv separates by commas."""
    links = os.environ.get("PIP_FIND_LINKS") or ""
    if not links:
        command = [sys.executable, "-m", "pip", "config", "get", "global.find-links"]
        links = subprocess.run(command, capture_output=True, text=True).stdout
    return ",".join(links.split())
