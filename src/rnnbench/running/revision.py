"""The revision of the code that measured a run."""

from __future__ import annotations

import subprocess
from importlib import metadata
from pathlib import Path

import rnnworker

EDITED = "-edited"
SECONDS = 10


def revision(folder: Path = Path(rnnworker.__file__).parent) -> str:
    """The git commit of the worker's `folder`, with ``-edited`` if a tracked file of its repository
    has changed; the package's version if the folder is not in git. It is for readers only: a run's
    identity has a digest of the code itself."""
    try:
        _git(folder, "ls-files", "--error-unmatch", ".")
        return _git(
            folder, "describe", "--always", "--exclude=*", "--abbrev=40", f"--dirty={EDITED}"
        )
    except (OSError, subprocess.SubprocessError):
        return f"rnnbench {metadata.version('rnnbench')}"


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments],
        check=True, capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return done.stdout.strip()
