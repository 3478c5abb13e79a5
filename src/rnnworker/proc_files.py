"""What the kernel's files say about this process: files below /proc and /sys, and the limits of its
control groups (cgroups), which restrict containers and the jobs of clusters.

Sources: Linux's Documentation/admin-guide/cgroup-v2.rst (``cpu.max``, ``memory.max``,
``memory.events``), Documentation/scheduler/sched-bwc.rst (``cpu.cfs_quota_us``) and
cgroup-v1/memory.rst; proc(5).
"""

import os
import re
from typing import Iterator, Optional, Set, overload


def text(path: str) -> Optional[str]:
    """Returns the file's content, stripped; None if it cannot be read."""
    try:
        with open(str(path)) as file:
            return file.read().strip()
    except OSError:
        return None


@overload
def number(path: str) -> Optional[int]: ...


@overload
def number(path: str, default: int) -> int: ...


def number(path: str, default: Optional[int] = None) -> Optional[int]:
    """Returns the integer in the file; `default` if there is none."""
    try:
        return int(text(path) or "")
    except ValueError:
        return default


def processors(path: str) -> Set[int]:
    """Returns the set of processors in the file's list, such as ``0-3,8``."""
    numbers: Set[int] = set()
    for part in (text(path) or "").split(","):
        if part:
            ends = part.split("-")
            numbers.update(range(int(ends[0]), int(ends[-1]) + 1))
    return numbers


def memory_bytes(name: str = "MemTotal", file: str = "/proc/meminfo") -> Optional[int]:
    """Returns the value of `name` in ``/proc/meminfo`` or a `file` like it, such as
    ``/proc/self/status``, in bytes; None if unknown."""
    match = re.search(name + r":\s+(\d+) kB", text(file) or "")
    if match is None:
        return None
    return int(match.group(1)) * 1024


def available_bytes(proc: str = "/proc") -> Optional[int]:
    """Returns the bytes of memory that can be used without swapping and within the limits of the
    control groups of this process; None if they are unknown."""
    known = [memory_bytes("MemAvailable", os.path.join(proc, "meminfo"))]
    # The scheduler of a cluster sets such limits for a job.
    for folder in _groups_and_parents("memory", os.path.join(proc, "self")):
        known.append(number(os.path.join(folder, "memory.max")))
        known.append(number(os.path.join(folder, "memory.limit_in_bytes")))
    return min((size for size in known if size is not None), default=None)


def quota(process: str = "/proc/self") -> Optional[float]:
    """Returns the smallest CPU quota, in cores, of the control groups of `process` and their
    parents; None if there is none or it is unknown."""
    quotas = []
    for folder in _groups_and_parents("cpu", process):
        names = ("cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us")
        files = [text(os.path.join(folder, name)) or "" for name in names]
        match = re.match("([1-9][0-9]*) ([1-9][0-9]*)$", " ".join(files).strip())
        if match:  # otherwise it is "max", or -1
            quota_us, period_us = match.groups()
            quotas.append(float(quota_us) / float(period_us))
    return min(quotas, default=None)


def oom_kills(process: str = "/proc/self", host: str = "/proc/vmstat") -> Optional[int]:
    """Returns how many processes in the control group of `process` the kernel has killed because
    memory ran out. A worker stays in the controller's group unless its build's command moves it.

    In the host's root group, which version 2 does not count, the kills on the whole host: a SIGKILL
    of a worker at the same time is almost certainly one of them. None if the kernel counts none."""
    files = []
    for group in _groups("memory", process):
        for name in ("memory.events.local", "memory.events", "memory.oom_control"):
            files.append(os.path.join(group, name))
    files.append(host)
    for file in files:
        match = re.search(r"^oom_kill (\d+)$", text(file) or "", re.M)
        if match:
            return int(match.group(1))
    return None


def _groups(controller: str, process: str) -> Iterator[str]:
    """Yields the folders of the control groups in which `controller` (``cpu`` or ``memory``)
    restricts `process`. Their paths are in ``/proc/PID/cgroup``, their mount points in
    ``/proc/PID/mountinfo``."""
    groups = text(os.path.join(process, "cgroup")) or ""
    mounts = text(os.path.join(process, "mountinfo")) or ""
    for group in groups.splitlines():
        _, controllers, path = group.split(":", 2)
        for line in mounts.splitlines():
            mount = line.split(" ")
            root, point = mount[3:5]
            kind, _, options = mount[mount.index("-") + 1 :][:3]
            if kind == "cgroup2":
                restricts = not controllers
            elif kind == "cgroup" and controller in options.split(","):
                is_host = controller == "memory" and path == "/"
                restricts = controller in controllers.split(",") and not is_host
            else:
                restricts = False
            inside = os.path.relpath(path, root)
            if restricts and inside[:2] != "..":
                yield os.path.normpath(os.path.join(point, inside))


def _groups_and_parents(controller: str, process: str) -> Iterator[str]:
    """Yields the folders of the control groups and all folders above them. In a container's
    namespace, the path may not exist; the group is then a parent."""
    for folder in _groups(controller, process):
        while folder != os.path.dirname(folder):
            yield folder
            folder = os.path.dirname(folder)
