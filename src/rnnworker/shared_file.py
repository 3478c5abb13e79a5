"""A file that several users of a host lock, such as that of the timing lock."""

import contextlib
import os
from typing import Union


def timing_lock() -> str:
    """Returns the path of the lock file of this host, regardless of the user's temporary folder."""
    path = os.environ.get("RNNBENCH_TIMING_LOCK", "/tmp/rnnbench-timing.lock")
    return os.path.expandvars(path)


def open_shared(path: Union[str, "os.PathLike[str]"]) -> int:
    """Returns a descriptor of the file `path`, made with mode 0666 if it is missing, so that
    another user can lock it too. Raises OSError if it cannot be opened."""
    # In a sticky folder Linux refuses O_CREAT on another user's file, so try without it first.
    with contextlib.suppress(FileNotFoundError):
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    with contextlib.suppress(PermissionError):
        os.chmod(path, 0o666)  # whatever the umask is
    return descriptor
