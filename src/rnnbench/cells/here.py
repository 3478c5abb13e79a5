"""What this machine offers, as reasons why a config cannot run on it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

NVIDIA = (Path("/proc/driver/nvidia"), Path("/dev/nvidia0"))


def obstacles(config: Mapping[str, Any]) -> str | None:
    """Why `config` cannot run on this machine, or None."""
    return obstacle_on(config["device"], cores(), any(path.exists() for path in NVIDIA))


def obstacle_on(device: Mapping[str, Any], cores: int, nvidia: bool) -> str | None:
    """Why a run cannot have `device` on a machine with `cores` and with or without a GPU.
    A device without a thread count takes what there is."""
    if device.get("kind") == "gpu" and not nvidia:
        return "no NVIDIA GPU on this machine"
    threads = device.get("threads")
    if device.get("kind") == "cpu" and threads is not None and threads > cores:
        return f"this machine offers {cores} {'core' if cores == 1 else 'cores'}"
    return None


def cores() -> int:
    """The cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
