"""Python interpreters of this machine, by version: the running one, PATH, pyenv, uv."""

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
TELL = "import sys; print('%d.%d.%d' % sys.version_info[:3])"
SECONDS = 30


def is_version(text: str) -> bool:
    """Whether `text` is a Python version such as 3.7 or 3.7.16, not a path or a program."""
    return VERSION.fullmatch(text) is not None


def find(version: str) -> Path | None:
    """An interpreter of that version (3.7 is any 3.7), or None. Each candidate is started
    and asked: a shim of pyenv's may be there and not run."""
    return _find(version, os.environ.get("PATH", ""))


def how_to_get(version: str) -> str:
    """What to type for a Python of that version, for a message."""
    words = f"pyenv install {version}"
    if tuple(map(int, version.split(".")[:2])) >= OLDEST_OF_UV:
        words += f" (or: uv python install {version})"
    return words


@functools.cache
def _find(version: str, path: str) -> Path | None:
    for candidate in _candidates(version, path):
        told = _told([str(candidate), "-I", "-c", TELL])
        if told == version or told.startswith(f"{version}."):
            return candidate
    return None


def _candidates(version: str, path: str) -> Iterator[Path]:
    # The interpreter behind a virtual environment, so that the environment may go.
    yield Path(getattr(sys, "_base_executable", sys.executable))
    name = f"python{'.'.join(version.split('.')[:2])}"
    for folder in path.split(os.pathsep):
        if folder and (found := shutil.which(name, path=folder)):
            yield Path(found)
    if pyenv := shutil.which("pyenv", path=path):
        root = _told([pyenv, "root"])
        yield from _newest_first(Path(root, "versions"), version) if root else ()
    if managed := _told([uv_program(), "python", "find", *ONLY_MANAGED, version]):
        yield Path(managed)


ONLY_MANAGED = ("--managed-python", "--no-python-downloads", "--no-project")


def _newest_first(folder: Path, version: str) -> list[Path]:
    """pyenv's interpreters of that version; other things may lie beside them."""
    found = [
        place
        for place in folder.glob(f"{version}*")
        if is_version(place.name) and f"{place.name}.".startswith(f"{version}.")
    ]
    found.sort(key=lambda place: [int(part) for part in place.name.split(".")], reverse=True)
    return [place / "bin" / "python" for place in found]


def _told(command: Sequence[str]) -> str:
    """The last line the command prints, or nothing."""
    try:
        answer = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = answer.stdout.strip().splitlines()
    return lines[-1].strip() if answer.returncode == 0 and lines else ""
