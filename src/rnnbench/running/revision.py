"""Which revision of this code measured."""

from __future__ import annotations

import subprocess
from importlib import metadata
from pathlib import Path

import rnnworker

EDITED = "-edited"
SECONDS = 10


def revision(folder: Path = Path(rnnworker.__file__).parent) -> str:
    """The git commit of the worker's `folder`, with ``-edited`` where a tracked file of its
    repository differs; the package's version where git does not keep it. For a reader alone: a
    run's identity has a digest of the code itself."""
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
