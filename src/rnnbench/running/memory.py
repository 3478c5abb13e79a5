"""Whether a worker ended for want of memory: what it said, what the kernel counted.

``limits.memory_bytes`` is the worker's RLIMIT_DATA, set before any framework is imported: the
kernel counts private writable memory against it, without a process beside the timed one. Address
space that a framework only reserves (glibc's arenas, CUDA's windows: no access, or not private)
does not count, which rules out RLIMIT_AS; RLIMIT_RSS does nothing since Linux 2.4. Each process
has the limit for itself; memory on a GPU is not counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

# In lower case: glibc, C++, NumPy, TensorFlow, torch and XLA.
WORDS = (
    "bad_alloc",
    "cannot allocate memory",
    "can't allocate memory",
    "failed to allocate",
    "memoryerror",
    "out of memory",
    "oom when allocating",
    "resource_exhausted",
    "unable to allocate",
)
TAIL = 8192


def said(text: str) -> bool:
    """Whether `text` (an error's message, the end of a log) speaks of memory that ran out."""
    return any(words in text.lower() for words in WORDS)


def tail(log: Path) -> str:
    """The last lines of a log, or nothing."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - TAIL))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def kills(process: Path = Path("/proc/self")) -> int | None:
    """How many processes of this process's own control group the kernel has killed for memory; a
    worker stays in that group, unless its build's command takes it elsewhere. None where there is
    no group but the whole host's: what is killed there may be anybody's.

    Source: ``memory.events`` (cgroup v2), ``memory.oom_control`` (v1); a host's v2 root has none.
    """
    for group in _groups(process):
        for name in ("memory.events.local", "memory.events", "memory.oom_control"):
            with suppress(OSError, ValueError):
                for line in (group / name).read_text().splitlines():
                    event, _, count = line.partition(" ")
                    if event == "oom_kill":
                        return int(count)
    return None


def limit(process: Path = Path("/proc/self")) -> int | None:
    """The bytes that this process's control groups allow it and those beside it, as a cluster's
    scheduler sets them for a job; None where they set no limit."""
    found = []
    for group in _groups(process):
        for folder in (group, *group.parents):
            for name in ("memory.max", "memory.limit_in_bytes"):
                with suppress(OSError, ValueError):
                    found.append(int((folder / name).read_text()))
    return min(found, default=None)


def _groups(process: Path) -> Iterator[Path]:
    """The folders of the control groups of a process that count its memory: ``/proc/PID/cgroup``
    says their paths, ``/proc/PID/mountinfo`` where these are to be found."""
    try:
        groups = [line.split(":", 2) for line in (process / "cgroup").read_text().splitlines()]
        mounts = [line.split(" ") for line in (process / "mountinfo").read_text().splitlines()]
    except OSError:
        return
    for _, controllers, path in groups:
        for mount in mounts:
            root, point = mount[3:5]
            kind, _, options = mount[mount.index("-") + 1 :][:3]
            second = kind == "cgroup2" and not controllers
            first = kind == "cgroup" and "memory" in controllers.split(",") and path != "/"
            if second or (first and "memory" in options.split(",")):
                with suppress(ValueError):
                    yield Path(point) / Path(path).relative_to(root)
