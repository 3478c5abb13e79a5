"""What the figures of a benchmark were made with: the first line that a script prints."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from pathlib import Path

from rnnbench.running.worker import revision
from rnnworker import machine


def heading() -> str:
    """``2026-11-28, AMD EPYC (AuthenticAMD 25 17), 2 cores, load average 0.3 at the start,
    Python 3.11.7, commit 682c3872…:``, in one line; the commit ends with ``-edited`` if a tracked
    file has changed."""
    facts = machine.fingerprint()
    processor = facts["cpu"]
    if facts["processor"]:
        processor += f" ({facts['processor']})"
    cores = len(os.sched_getaffinity(0))
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {processor}, {cores} cores, "
        f"load average {os.getloadavg()[0]:.1f} at the start, Python {platform.python_version()}, "
        f"commit {revision(Path(__file__).parent)}:\n"
    )
