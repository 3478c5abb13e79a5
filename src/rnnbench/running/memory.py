"""Whether a worker ended for want of memory: what it said, what the kernel counted.

``limits.memory_bytes`` is the worker's RLIMIT_DATA, set before any framework is imported: the
kernel counts private writable memory against it, without a process beside the timed one. Address
space that a framework only reserves (glibc's arenas, CUDA's windows: no access, or not private)
does not count, which rules out RLIMIT_AS; RLIMIT_RSS does nothing since Linux 2.4. Each process
has the limit for itself; memory on a GPU is not counted.
"""

from __future__ import annotations

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


def kills(vmstat: Path = Path("/proc/vmstat")) -> int | None:
    """How many processes the kernel has killed for memory since boot; None where it does not
    say."""
    try:
        for line in vmstat.read_text().splitlines():
            name, _, value = line.partition(" ")
            if name == "oom_kill":
                return int(value)
    except (OSError, ValueError):
        pass
    return None
