"""The host before a grid starts: what would spoil its numbers, said before an hour is spent."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

BUSY_SHARE = 0.25
SWAPPED_BYTES = 64 * 2**20


def warnings(facts: Mapping[str, Any]) -> list[str]:
    """What is wrong with a host, one sentence with a remedy each. Pure.

    **Arguments:** `facts` as `look` returns them; what could not be read is None.
    """
    found = []
    load, cores = facts.get("load"), facts.get("cores") or 1
    if load is not None and load > BUSY_SHARE * cores:
        found.append(
            f"other work keeps {load:.1f} of {cores} cores busy; end it, or runs will be suspect"
        )
    governor = facts.get("governor")
    if governor not in (None, "performance"):
        found.append(
            f"the frequency governor is {governor}; `cpupower frequency-set -g performance` "
            "makes times comparable"
        )
    if facts.get("on_battery"):
        found.append("this machine runs on its battery; plug it in")
    if (facts.get("swapped_bytes") or 0) > SWAPPED_BYTES:
        found.append("memory is swapped out; close what holds it")
    for process in facts.get("gpu_processes") or ():
        found.append(f"process {process} uses a GPU; end it before timing there")
    return found


def look() -> dict[str, Any]:
    """The facts `warnings` judges: load of the last minute (runnable processes), cores,
    governor, battery, swapped bytes, other processes on NVIDIA GPUs."""
    return {
        "load": os.getloadavg()[0],
        "cores": len(os.sched_getaffinity(0)),
        "governor": _read(Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")),
        "on_battery": _on_battery(),
        "swapped_bytes": _swapped(),
        "gpu_processes": _gpu_processes(),
    }


def _on_battery(base: Path = Path("/sys/class/power_supply")) -> bool | None:
    states = [_read(path) for path in base.glob("*/status")]
    return "Discharging" in states if states else None


def _swapped() -> int | None:
    values = {}
    for line in (_read(Path("/proc/meminfo")) or "").splitlines():
        name, _, value = line.partition(":")
        if name in ("SwapTotal", "SwapFree"):
            values[name] = int(value.split()[0]) * 1024
    return values["SwapTotal"] - values["SwapFree"] if len(values) == 2 else None


def _gpu_processes() -> Sequence[str]:
    if not Path("/proc/driver/nvidia").exists():
        return ()
    query = ["nvidia-smi", "--query-compute-apps=pid,name", "--format=csv,noheader"]
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True)
        return tuple(line.strip() for line in done.stdout.splitlines() if line.strip())
    return ()


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None
