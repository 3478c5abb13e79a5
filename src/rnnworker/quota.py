"""Reads the CPU quota of this process's control groups (cgroups), which limit containers.
Standard library only, Python 3.6 syntax.

Sources: Linux's Documentation/admin-guide/cgroup-v2.rst (``cpu.max``) and
Documentation/scheduler/sched-bwc.rst (``cpu.cfs_quota_us``).
"""

import os

from rnnworker.proc_files import text


def quota(mounted="/sys/fs/cgroup", own="/proc/self/cgroup"):
    """Returns the smallest quota, in cores, of this process's control group and its parents; None
    if there is none or it is unknown."""
    quotas = []
    for line in (text(own) or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            quotas += _group_and_parents(mounted, path, _of_version_2)
        elif "cpu" in controllers.split(","):
            for folder in ("cpu", controllers):
                quotas += _group_and_parents(os.path.join(mounted, folder), path, _of_version_1)
    return min(quotas, default=None)


def _group_and_parents(root, path, read):
    """Returns the quotas that `read` finds in the group `path` below `root` and in its parents. In
    a container's namespace, the path may not exist; the group is then the root."""
    parts = [part for part in path.split("/") if part and part != ".."]
    folders = [os.path.join(root, *parts[:count]) for count in range(len(parts) + 1)]
    return [cores for cores in map(read, folders) if cores]


def _of_version_2(folder):
    fields = (text(os.path.join(folder, "cpu.max")) or "").split()
    return _cores(*fields) if len(fields) == 2 else None


def _of_version_1(folder):
    names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
    return _cores(*(text(os.path.join(folder, name)) or "" for name in names))


def _cores(allowed, period):
    if not (allowed.isdigit() and period.isdigit() and int(period)):
        return None  # "max", or -1
    return float(allowed) / float(period)
