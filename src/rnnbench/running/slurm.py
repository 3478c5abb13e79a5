"""The Slurm job this process belongs to, and whether another one is over."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from typing import Any

SECONDS = 10
OVER = {
    "BOOT_FAIL",
    "CANCELLED",
    "COMPLETED",
    "DEADLINE",
    "FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "REVOKED",
    "TIMEOUT",
}


def job(environment: Mapping[str, str] = os.environ) -> dict[str, Any] | None:
    """The id of this process's job, its cluster, node and partition; None outside Slurm."""
    if not environment.get("SLURM_JOB_ID"):
        return None
    return {
        "id": environment["SLURM_JOB_ID"],
        "cluster": environment.get("SLURM_CLUSTER_NAME"),
        "node": environment.get("SLURMD_NODENAME"),
        "partition": environment.get("SLURM_JOB_PARTITION"),
        "restart": int(environment.get("SLURM_RESTART_COUNT", 0)),
    }


def is_earlier_start(other: Any, mine: Any) -> bool:
    """Whether `other` is what Slurm has put back into the queue and started again as `mine`."""
    if not isinstance(other, Mapping) or not isinstance(mine, Mapping):
        return False
    same = all(other.get(key) == mine.get(key) for key in ("id", "cluster"))
    return same and other.get("restart", 0) < mine.get("restart", 0)


def is_over(other: Any) -> bool:
    """Whether Slurm says that the job `other` has ended. False also where Slurm cannot be asked
    or the job is another cluster's."""
    if not isinstance(other, Mapping) or not other.get("id"):
        return False
    if other.get("cluster") != os.environ.get("SLURM_CLUSTER_NAME", other.get("cluster")):
        return False
    try:
        asked = subprocess.run(
            ["squeue", "--noheader", "--states=all", "--format=%T", f"--jobs={other['id']}"],
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    if asked.returncode:
        return "Invalid job id" in asked.stderr
    states = asked.stdout.split()
    return bool(states) and set(states) <= OVER
