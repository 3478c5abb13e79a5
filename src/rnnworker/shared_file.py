"""A file that several users of a host lock, such as that of the timing lock."""

import contextlib
import os
import pathlib


def timing_lock() -> pathlib.Path:
    """Returns the lock file of this host, regardless of the user's temporary folder."""
    path = os.environ.get("RNNBENCH_TIMING_LOCK", "/tmp/rnnbench-timing.lock")
    return pathlib.Path(os.path.expandvars(path))


def open_shared(path: pathlib.Path) -> int:
    """Returns a descriptor of the file `path`, made with mode 0666 if it is missing, so that
    another user can lock it too. Raises OSError if it cannot be opened."""
    # In a sticky folder Linux refuses O_CREAT on another user's file, so try without it first.
    with contextlib.suppress(FileNotFoundError):
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    with contextlib.suppress(PermissionError):
        os.chmod(path, 0o666)  # whatever the umask is
    return descriptor
