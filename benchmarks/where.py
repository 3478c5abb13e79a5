"""The heading of a benchmark's table: date, machine and load."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime

from rnnworker import machine


def heading() -> str:
    """``2026-11-21, AMD EPYC, 2 cores, load average 0.3 at the start, Python 3.11.7:``"""
    cores = len(os.sched_getaffinity(0))
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {machine.fingerprint()['cpu']}, {cores} cores, "
        f"load average {os.getloadavg()[0]:.1f} at the start, Python {platform.python_version()}:\n"
    )
