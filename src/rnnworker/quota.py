"""How many cores' time the control groups allow this process, as containers are held to.
Standard library only, Python 3.6 syntax.

Sources: Linux's Documentation/admin-guide/cgroup-v2.rst (``cpu.max``) and
Documentation/scheduler/sched-bwc.rst (``cpu.cfs_quota_us``).
"""

import os

from rnnworker.proc_files import text


def quota(mounted="/sys/fs/cgroup", own="/proc/self/cgroup"):
    """The least quota of this process's control group and those above it, in cores; None where
    there is none, or nobody says."""
    found = []
    for line in (text(own) or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            found += _up(mounted, path, _of_version_2)
        elif "cpu" in controllers.split(","):
            for folder in ("cpu", controllers):
                found += _up(os.path.join(mounted, folder), path, _of_version_1)
    return min(found) if found else None


def _up(root, path, read):
    """What `read` finds in the group `path` below `root` and in those above it; in a container's
    own namespace the path may not be there, and the root is its group."""
    parts = [part for part in path.split("/") if part and part != ".."]
    folders = [os.path.join(root, *parts[:count]) for count in range(len(parts) + 1)]
    return [cores for cores in map(read, folders) if cores]


def _of_version_2(folder):
    words = (text(os.path.join(folder, "cpu.max")) or "").split()
    return _cores(*words) if len(words) == 2 else None


def _of_version_1(folder):
    names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
    return _cores(*(text(os.path.join(folder, name)) or "" for name in names))


def _cores(allowed, period):
    if not (allowed.isdigit() and period.isdigit() and int(period)):
        return None  # "max", or -1
    return float(allowed) / float(period)
