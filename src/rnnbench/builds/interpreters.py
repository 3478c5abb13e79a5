"""Finds Python interpreters by version: the running one, then those of PATH, pyenv and uv."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from rnnbench.builds.uv import uv_program

VERSION = re.compile(r"\d+\.\d+(\.\d+)?")
OLDEST_OF_UV = (3, 8)
PRINT_VERSION = "import sys; print('%d.%d.%d' % sys.version_info[:3])"
ONLY_MANAGED = ("--managed-python", "--no-python-downloads", "--no-project")
TIMEOUT = 30  # seconds


def is_version(text: str) -> bool:
    """Whether `text` is a Python version such as 3.7 or 3.7.16, not a path or program name."""
    return VERSION.fullmatch(text) is not None


def find(version: str) -> Path | None:
    """An interpreter of that version (3.7 matches any 3.7), or None. Runs each candidate to get its
    version, because a pyenv shim may exist and not run."""
    return _find(version, os.environ.get("PATH", ""))


def install_hint(version: str) -> str:
    """The command that installs Python `version`, for messages."""
    hint = f"pyenv install {version}"
    if tuple(map(int, version.split(".")[:2])) >= OLDEST_OF_UV:
        hint += f" (or: uv python install {version})"
    return hint


@functools.cache
def _find(version: str, path: str) -> Path | None:
    for candidate in _candidates(version, path):
        if _matches(_last_line([str(candidate), "-I", "-c", PRINT_VERSION]), version):
            return candidate
    return None


def _candidates(version: str, path: str) -> Iterator[Path]:
    # The interpreter behind a virtual environment: the environment itself may be deleted.
    yield Path(getattr(sys, "_base_executable", sys.executable))
    name = f"python{'.'.join(version.split('.')[:2])}"
    for folder in path.split(os.pathsep):
        if folder and (found := shutil.which(name, path=folder)):
            yield Path(found)
    if pyenv := shutil.which("pyenv", path=path):
        root = _last_line([pyenv, "root"])
        yield from _newest_first(Path(root, "versions"), version) if root else ()
    if managed := _last_line([uv_program(), "python", "find", *ONLY_MANAGED, version]):
        yield Path(managed)


def _newest_first(folder: Path, version: str) -> list[Path]:
    """The interpreters of that version in pyenv's folder, which may hold other entries too."""
    matching = [
        entry
        for entry in folder.glob(f"{version}*")
        if is_version(entry.name) and _matches(entry.name, version)
    ]
    matching.sort(key=lambda entry: [int(part) for part in entry.name.split(".")], reverse=True)
    return [entry / "bin" / "python" for entry in matching]


def _matches(full: str, version: str) -> bool:
    return f"{full}.".startswith(f"{version}.")


def _last_line(command: Sequence[str]) -> str:
    """The last line that the command prints, or the empty string if it fails."""
    try:
        result = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = result.stdout.strip().splitlines()
    return lines[-1].strip() if result.returncode == 0 and lines else ""
