"""Exclusive access of a command to the results folder, against Snakemake and other commands."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rnnbench import locks
from rnnbench.errors import RunError


@contextmanager
def exclusive_access(results: Path, command: str) -> Iterator[None]:
    """Holds the lock that Snakemake holds while it runs. Raises `RunError` at once if the lock is
    taken."""
    lock, holder = locks.take(results / ".lock", f"process {os.getpid()}, {command}")
    if lock is None:
        raise RunError(
            f"is in use ({holder}); nothing was changed.",
            where=str(results),
            remedy="wait for that process or end it, then repeat this command.",
        )
    try:
        yield
    finally:
        os.close(lock)
