"""The results folder for a command alone: no Snakemake executes meanwhile, and no other command."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rnnbench import locks
from rnnbench.errors import RunError


@contextmanager
def alone(results: Path, command: str) -> Iterator[None]:
    """Holds the lock that a Snakemake holds while it executes. Raises `RunError` at once where
    somebody has it."""
    lock, holder = locks.take(results / ".lock", f"process {os.getpid()}, {command}")
    if lock is None:
        raise RunError(
            f"somebody is at work here ({holder}); nothing was changed.",
            where=str(results),
            remedy="wait for it, or end it; then the same command again.",
        )
    try:
        yield
    finally:
        os.close(lock)
