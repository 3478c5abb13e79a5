"""The Slurm job of this process, and whether another job is over."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from typing import Any

SECONDS = 10
OVER = {
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
    "PREEMPTED", "REVOKED", "TIMEOUT",
}  # fmt: skip


def job(environment: Mapping[str, str] = os.environ) -> dict[str, Any] | None:
    """Id, cluster, node, partition and restart count of this process's job; None outside Slurm."""
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
    """Whether `other` is an earlier start of the job `mine`, which Slurm has requeued since."""
    if not isinstance(other, Mapping) or not isinstance(mine, Mapping):
        return False
    is_same_job = all(other.get(key) == mine.get(key) for key in ("id", "cluster"))
    return is_same_job and other.get("restart", 0) < mine.get("restart", 0)


def is_over(other: Any) -> bool:
    """Whether Slurm reports that the job `other` has ended. False also if Slurm does not answer or
    the job belongs to another cluster."""
    if not isinstance(other, Mapping) or not other.get("id"):
        return False
    if other.get("cluster") != os.environ.get("SLURM_CLUSTER_NAME", other.get("cluster")):
        return False
    try:
        query = subprocess.run(
            ["squeue", "--noheader", "--states=all", "--format=%T", f"--jobs={other['id']}"],
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    if query.returncode:
        return "Invalid job id" in query.stderr
    states = query.stdout.split()
    return bool(states) and set(states) <= OVER
