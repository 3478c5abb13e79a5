"""Locks that the kernel releases with their holder (flock(2))."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def locked(
    path: Path, holder: str = "", on_wait: Callable[[str], None] | None = None
) -> Iterator[int]:
    """Holds the exclusive lock of the file `path`, which is made and stays.

    **Arguments:**

    - `holder`: who holds it, for those who wait.
    - `on_wait`: called once with the present holder's words before waiting.

    **Yields** the file descriptor. A child that inherits it holds the lock too, so that an
    orphan keeps others out. Raises `OSError` where the file cannot be opened.
    """
    descriptor = _open(path)
    try:
        if not try_lock(descriptor):
            if on_wait is not None:
                on_wait(_holder_of(descriptor))
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if holder:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, holder.encode("utf-8"), 0)
        yield descriptor
    finally:
        os.close(descriptor)


def take(path: Path, holder: str) -> tuple[int | None, str]:
    """Takes the lock for as long as this process lives: (descriptor, ""), or (None, the
    present holder's words) at once where somebody has it."""
    descriptor = _open(path)
    if not try_lock(descriptor):
        words = _holder_of(descriptor)
        os.close(descriptor)
        return None, words
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, holder.encode("utf-8"), 0)
    return descriptor, ""


def try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder_of(descriptor: int) -> str:
    """The words of who has the lock, which are written right after it was taken: ``""`` where
    there are none after a second."""
    deadline = time.monotonic() + 1.0
    while True:
        words = os.pread(descriptor, 400, 0).decode("utf-8", "replace").strip()
        if words or time.monotonic() > deadline:
            return words
        time.sleep(0.01)


def _open(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    # In a sticky folder Linux refuses O_CREAT on another user's file, so open it plainly first.
    with suppress(FileNotFoundError):
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    with suppress(PermissionError):
        os.chmod(path, 0o666)
    return descriptor
