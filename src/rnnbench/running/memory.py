"""Whether a worker ran out of memory, from its messages and the kernel's counters.

``limits.memory_bytes`` is the worker's RLIMIT_DATA, set before any framework is imported. The
kernel counts private writable memory against it, so that no process has to watch the timed one.
Address space that a framework only reserves (glibc's arenas, CUDA's windows: inaccessible or not
private) does not count; this rules out RLIMIT_AS. RLIMIT_RSS has had no effect since Linux 2.4. The
limit applies to each process separately; GPU memory is not counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

# Messages of glibc, C++, NumPy, TensorFlow, torch and XLA, in lower case.
MESSAGES = (
    "bad_alloc", "cannot allocate memory", "can't allocate memory", "failed to allocate",
    "memoryerror", "out of memory", "oom when allocating", "resource_exhausted",
    "unable to allocate",
)  # fmt: skip
TAIL_BYTES = 8192


def is_out_of_memory(text: str) -> bool:
    """Whether `text` (an error's message, the end of a log) says that memory ran out."""
    return any(message in text.lower() for message in MESSAGES)


def tail(log: Path) -> str:
    """The last `TAIL_BYTES` of a log; empty if it cannot be read."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - TAIL_BYTES))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def oom_kills(process: Path = Path("/proc/self")) -> int | None:
    """How many processes in the control group of `process` the kernel has killed because memory ran
    out. A worker stays in the controller's group unless its build's command moves it. None if there
    is only the host's root group, where any process may have been killed.

    Source: ``memory.events`` (cgroup v2) or ``memory.oom_control`` (v1); the host's v2 root group
    has neither.
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
    """The memory limit in bytes of the control groups of `process`, as the scheduler of a cluster
    sets it for a job; None if they have no limit."""
    limits = []
    for group in _groups(process):
        for folder in (group, *group.parents):
            for name in ("memory.max", "memory.limit_in_bytes"):
                with suppress(OSError, ValueError):
                    limits.append(int((folder / name).read_text()))
    return min(limits, default=None)


def _groups(process: Path) -> Iterator[Path]:
    """The folders of the control groups that count the memory of `process`. Their paths are in
    ``/proc/PID/cgroup``, their mount points in ``/proc/PID/mountinfo``."""
    try:
        groups = [line.split(":", 2) for line in (process / "cgroup").read_text().splitlines()]
        mounts = [line.split(" ") for line in (process / "mountinfo").read_text().splitlines()]
    except OSError:
        return
    for _, controllers, path in groups:
        for mount in mounts:
            root, point = mount[3:5]
            kind, _, options = mount[mount.index("-") + 1 :][:3]
            is_v2 = kind == "cgroup2" and not controllers
            is_v1 = kind == "cgroup" and "memory" in controllers.split(",") and path != "/"
            if is_v2 or (is_v1 and "memory" in options.split(",")):
                with suppress(ValueError):
                    yield Path(point) / Path(path).relative_to(root)
