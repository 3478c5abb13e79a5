"""Whether a worker ran out of memory, from its messages and the kernel's counters; and how much
memory is available. Standard library only, Python 3.6 syntax: the controller and bundles use it.

``limits.memory_bytes`` is the worker's RLIMIT_DATA, set before any framework is imported. The
kernel counts private writable memory against it, so that no process has to watch the timed one.
Address space that a framework only reserves (glibc's arenas, CUDA's windows: inaccessible or not
private) does not count; this rules out RLIMIT_AS. RLIMIT_RSS has had no effect since Linux 2.4. The
limit applies to each process separately; GPU memory is not counted.
"""

import os
from contextlib import suppress

from rnnworker import machine

# Messages of glibc, C++, NumPy, TensorFlow, torch and XLA, in lower case.
MESSAGES = (
    "bad_alloc", "cannot allocate memory", "can't allocate memory", "failed to allocate",
    "memoryerror", "out of memory", "oom when allocating", "resource_exhausted",
    "unable to allocate",
)  # fmt: skip
ERRORS = ("MemoryError", "ResourceExhaustedError")  # types of exceptions
TAIL_BYTES = 8192
SIGKILLED = -9  # as an exit code


def is_out_of_memory(text):
    """Returns whether `text` (an error's message, the end of a log) says that memory ran out."""
    return any(message in text.lower() for message in MESSAGES)


def ran_out(outcome):
    """Returns whether a worker ended because memory ran out (`members.Outcome`)."""
    if outcome.over_limit:
        return False
    for event in outcome.events:
        if event["event"] == "error":
            text = "{type}: {message}".format_map(dict({"type": "", "message": ""}, **event))
            return event.get("type") in ERRORS or is_out_of_memory(text)
    if outcome.exit_code == SIGKILLED and outcome.oom_kill:
        return True
    return outcome.exit_code < 0 and is_out_of_memory(outcome.log_tail)


def tail(log):
    """Returns the last `TAIL_BYTES` of a log; empty if it cannot be read."""
    try:
        with open(str(log), "rb") as file:
            file.seek(max(0, file.seek(0, 2) - TAIL_BYTES))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def available_bytes(proc="/proc"):
    """Returns the bytes of memory that can be used without swapping and within the limit of a
    cluster's job; None if they are unknown."""
    limits = (
        limit(os.path.join(proc, "self")),
        machine.available_memory(os.path.join(proc, "meminfo")),
    )
    return min((limit for limit in limits if limit is not None), default=None)


def oom_kills(process="/proc/self"):
    """Returns how many processes in the control group of `process` the kernel has killed because
    memory ran out. A worker stays in the controller's group unless its build's command moves it.
    None if there is only the host's root group, where any process may have been killed.

    Source: ``memory.events`` (cgroup v2) or ``memory.oom_control`` (v1); the host's v2 root group
    has neither.
    """
    for group in _groups(process):
        for name in ("memory.events.local", "memory.events", "memory.oom_control"):
            with suppress(OSError, ValueError):
                for line in _lines(group, name):
                    event, _, count = line.partition(" ")
                    if event == "oom_kill":
                        return int(count)
    return None


def limit(process="/proc/self"):
    """Returns the memory limit in bytes of the control groups of `process`, as the scheduler of a
    cluster sets it for a job; None if they have no limit."""
    limits = []
    for group in _groups(process):
        while True:
            for name in ("memory.max", "memory.limit_in_bytes"):
                with suppress(OSError, ValueError):
                    limits.append(int(_lines(group, name)[0]))
            if group == os.path.dirname(group):
                break
            group = os.path.dirname(group)
    return min(limits, default=None)


def _groups(process):
    """Yields the folders of the control groups that count the memory of `process`. Their paths are
    in ``/proc/PID/cgroup``, their mount points in ``/proc/PID/mountinfo``."""
    try:
        groups = [line.split(":", 2) for line in _lines(process, "cgroup")]
        mounts = [line.split(" ") for line in _lines(process, "mountinfo")]
    except OSError:
        return
    for _, controllers, path in groups:
        for mount in mounts:
            root, point = mount[3:5]
            kind, _, options = mount[mount.index("-") + 1 :][:3]
            is_v2 = kind == "cgroup2" and not controllers
            is_v1 = kind == "cgroup" and "memory" in controllers.split(",") and path != "/"
            inside = os.path.relpath(path, root)
            if (is_v2 or (is_v1 and "memory" in options.split(","))) and inside[:2] != "..":
                yield os.path.normpath(os.path.join(point, inside))


def _lines(folder, name):
    with open(os.path.join(str(folder), name)) as file:
        return file.read().splitlines()
