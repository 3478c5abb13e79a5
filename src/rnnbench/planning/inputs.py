"""Records which files a computation reads, to tell later whether one of them has changed.

The interpreter itself reports each file that is opened, each folder that is listed and each program
that is started (audit events, PEP 578), so no code can read a file without being seen. What it does
not report is a look at whether a file exists.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

State = tuple[int, ...] | None  # None: a folder, of which only the name counts

LISTED = ("os.listdir", "os.scandir")
STARTED = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty")
KERNEL = ("/proc", "/sys", "/dev")
PYTHON = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))


class Inputs:
    """What a computation read.

    - `files`: path → its state just before it was read for the first time, for files and for
      folders that were listed. Not included: the kernel's files, Python's own, those of installed
      packages, those below the folders `ignored`, and those that were deleted before the end.
    - `complete`: False if it started a program, which may have read anything, or if an earlier
      computation of this process was recorded, whose caches it may have used instead of files.
    """

    def __init__(self, complete: bool, ignored: Iterable[Path]) -> None:
        self.files: dict[str, State] = {}
        self._ignored = tuple(f"{folder}{os.sep}" for folder in (*KERNEL, *PYTHON, *ignored))
        self.complete = complete
        self._thread = threading.get_ident()

    def see(self, event: str, arguments: tuple[object, ...]) -> None:
        """Handles an audit event."""
        if event in STARTED:
            self.complete = False
        elif (event == "open" or event in LISTED) and threading.get_ident() == self._thread:
            named = arguments[0] if arguments[0] is not None else "."
            if isinstance(named, str | bytes | os.PathLike):
                path = os.path.abspath(os.fsdecode(named))
                for each in (path, os.path.realpath(path)):
                    if each not in self.files and not each.startswith(self._ignored):
                        self.files[each] = state_of(each)


_recording: list[Inputs] = []
_recorded_before = False


@contextmanager
def recorded(ignored: Iterable[Path] = ()) -> Iterator[Inputs]:
    """Yields the inputs of the code that runs inside it in this thread, but for files below the
    absolute paths `ignored`."""
    global _recorded_before
    inputs = Inputs(not _recorded_before, ignored)
    if not _recorded_before:
        sys.addaudithook(_see)
        _recorded_before = True
    _recording.append(inputs)
    try:
        yield inputs
    finally:
        _recording.remove(inputs)
        inputs.files = {path: state for path, state in inputs.files.items() if os.path.exists(path)}


def _see(event: str, arguments: tuple[object, ...]) -> None:
    for inputs in _recording:
        inputs.see(event, arguments)


def state_of(path: str | Path) -> State:
    """Times, size and inode, of which one differs if the file or folder was changed or replaced.
    An empty tuple if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


def states_below(folder: Path, suffix: str = "") -> dict[str, State]:
    """The states of the files below `folder` with this suffix; without one, of all files, and the
    names of all folders."""
    states: dict[str, State] = {}
    for parent, _, files in os.walk(folder):
        if not suffix:
            states[parent] = None
        for name in files:
            if name.endswith(suffix):
                path = os.path.join(parent, name)
                states[path] = state_of(path)
    return states
