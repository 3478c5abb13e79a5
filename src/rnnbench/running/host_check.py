"""Checks the host before a grid starts and warns about conditions that would distort its times."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import warnings as warnings_module
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import psutil

from rnnworker.processors import load_so_far

GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
BUSY_SHARE = 0.25
SAMPLE_SECONDS = 1.0  # at least
SLOWED = 1.2  # duration of the random reads at which steps take 7 % longer (`tables.states`)
SWAPPED_BYTES = 64 * 2**20


@dataclass(frozen=True, kw_only=True)
class HostFacts:
    """What may distort times; None if it cannot be read.

    - `cores`: the number that this process may use; `busy`: how many of them other processes keep
      busy in about a second.
    - `slowness`: how many times their known duration random reads take (`rnnworker.processors`).
    - `governor`: the frequency governor.
    - `gpu_processes`: other processes on NVIDIA GPUs.
    """

    busy: float | None
    cores: int
    slowness: float | None
    governor: str | None
    on_battery: bool
    swapped_bytes: int
    gpu_processes: Sequence[str]


def warnings(facts: HostFacts) -> list[str]:
    """Warnings about a host, each with its remedy. No side effects."""
    messages = []
    if facts.busy is not None and facts.busy > BUSY_SHARE * facts.cores:
        messages.append(
            f"other processes keep {facts.busy:.1f} of {facts.cores} cores busy; stop them, or "
            "runs will be suspect"
        )
    if facts.slowness is not None and facts.slowness > SLOWED:
        messages.append(
            "something outside this machine slows it down: reads take "
            f"{facts.slowness:.2f} times as long as on an undisturbed core; intervals will be "
            "wider than at another hour"
        )
    if facts.governor not in (None, "performance"):
        messages.append(
            f"the frequency governor is {facts.governor}; `cpupower frequency-set -g performance` "
            "makes times comparable"
        )
    if facts.on_battery:
        messages.append("this machine runs on battery; plug it in")
    if facts.swapped_bytes > SWAPPED_BYTES:
        messages.append("memory is swapped out; close programs that use much memory")
    for process in facts.gpu_processes:
        messages.append(f"process {process} uses a GPU; stop it before timing on that GPU")
    return messages


class Sample(NamedTuple):
    """CPU seconds of other processes so far, on the cores that this one may use.

    - `at`: monotonic time.
    - `others`: None if the kernel does not count them.
    """

    at: float
    others: float | None


def sample() -> Sample:
    return Sample(time.monotonic(), _others_seconds(os.sched_getaffinity(0)))


def read_host_facts(since: Sample | None = None) -> HostFacts:
    """The facts of this host. `since`: an earlier sample; this takes what is left of a second after
    it."""
    cores = os.sched_getaffinity(0)
    before = since or sample()
    slowness = _slowness()
    time.sleep(max(0.0, SAMPLE_SECONDS + before.at - time.monotonic()))
    after = sample()
    busy = None
    if before.others is not None and after.others is not None:
        share = (after.others - before.others) / (after.at - before.at)
        busy = min(max(share, 0.0), len(cores))

    battery = psutil.sensors_battery()
    governor = None
    with suppress(OSError):
        governor = GOVERNOR.read_text().strip()
    with warnings_module.catch_warnings(action="ignore"):  # gVisor has no /proc/vmstat
        swapped = psutil.swap_memory().used

    return HostFacts(
        busy=busy,
        cores=len(cores),
        slowness=slowness,
        governor=governor,
        on_battery=battery is not None and not battery.power_plugged,
        swapped_bytes=swapped,
        gpu_processes=_gpu_processes(),
    )


def _others_seconds(cores: set[int]) -> float | None:
    """CPU seconds on `cores` since the machine started; None if the kernel does not count them.

    The CPU seconds of this process and its descendants are left out.
    """
    processors = load_so_far().processors
    if not processors:
        return None
    this = psutil.Process()
    of_ours = 0.0
    for process in (this, *this.children(recursive=True)):
        with suppress(psutil.Error):
            of_ours += sum(process.cpu_times()[:4])  # user and system, also of ended children
    of_all = sum(processors[core][0] for core in cores & processors.keys())
    return of_all - of_ours


def _slowness() -> float | None:
    """How many times their known duration random reads take, or None if it is not known.

    Measured in a process of its own, because the caller is alive during timed runs and NumPy is
    large.
    """
    command = [sys.executable, "-m", "rnnworker.processors"]
    with suppress(OSError, subprocess.SubprocessError, ValueError):
        return float(_output(command))
    return None


def _gpu_processes() -> Sequence[str]:
    """Id and name of each process that uses an NVIDIA GPU."""
    if not Path("/proc/driver/nvidia").exists():
        return ()
    query = ["nvidia-smi", "--query-compute-apps=pid,name", "--format=csv,noheader"]
    with suppress(OSError, subprocess.SubprocessError):
        return tuple(line.strip() for line in _output(query).splitlines() if line.strip())
    return ()


def _output(command: Sequence[str]) -> str:
    """What a command prints. Raises `OSError` or `subprocess.SubprocessError`, after 20 s too."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    return done.stdout
