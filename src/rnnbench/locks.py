"""File locks that the operating system releases when their holder exits (flock(2))."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rnnbench.errors import RunError
from rnnworker.shared_file import open_shared


@contextmanager
def locked(
    path: Path, holder: str = "", on_wait: Callable[[str], None] | None = None
) -> Iterator[int]:
    """Holds an exclusive lock on the file `path`, which is created if missing and never removed.
    `holder` describes this process to those that wait for the lock; `on_wait` is called once,
    before waiting, with the description of the current holder.

    **Yields** the file descriptor. A child process that inherits it holds the lock too, even after
    its parent has exited. Raises `OSError` if the file cannot be opened, and `RunError` if its file
    system has no locks."""
    descriptor = _open(path)
    try:
        if not _try_lock(descriptor, path):
            if on_wait is not None:
                on_wait(_holder_of(descriptor))
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if holder:
            _write_holder(descriptor, holder)
        yield descriptor
    finally:
        os.close(descriptor)


def take(path: Path, holder: str) -> tuple[int | None, str]:
    """Acquires the lock until this process exits, without waiting. Returns (descriptor, ""), or
    (None, description of the current holder) if the lock is held."""
    descriptor = _open(path)
    if not _try_lock(descriptor, path):
        current = _holder_of(descriptor)
        os.close(descriptor)
        return None, current
    _write_holder(descriptor, holder)
    return descriptor, ""


@contextmanager
def exclusive(results: Path, command: str = "snakemake") -> Iterator[None]:
    """Holds the lock of the results folder, which Snakemake and each command that changes results
    need. Raises `RunError` at once if another process holds it."""
    lock, holder = take(results / ".lock", f"process {os.getpid()}, {command}")
    if lock is None:
        what = f"is in use by another process ({holder}); nothing was changed."
        remedy = "wait for it or end it, then run the same command again."
        raise RunError(what, where=str(results), remedy=remedy)
    try:
        yield
    finally:
        os.close(lock)


def _try_lock(descriptor: int, path: Path) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        what = f"its file system cannot lock files ({error.strerror})."
        remedy = "move the project to a file system with flock."
        raise RunError(what, where=str(path), remedy=remedy) from error
    return True


def _write_holder(descriptor: int, holder: str) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, holder.encode("utf-8"), 0)


def _holder_of(descriptor: int) -> str:
    """The description of the current holder, or ``""`` if there is none after one second: it is
    written just after the lock is acquired."""
    deadline = time.monotonic() + 1.0
    while True:
        holder = os.pread(descriptor, 400, 0).decode("utf-8", "replace").strip()
        if holder or time.monotonic() > deadline:
            return holder
        time.sleep(0.01)


def _open(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    return open_shared(path)
