"""Reasons why a config cannot run on this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from rnnworker import affinity, machine
from rnnworker import cards as nvidia


def unmet_constraints(config: Mapping[str, Any]) -> str | None:
    """Why `config` cannot run on this machine, or None."""
    return unmet_device(config["device"], cores(), cards())


def unmet_device(device: Mapping[str, Any], cores: int, cards: Sequence[str]) -> str | None:
    """Why a machine with `cores` cores and the GPUs `cards` (the driver's names) cannot provide
    `device`, or None. A device without a thread count uses all available cores."""
    if device.get("kind") == "gpu" and not cards:
        return "no NVIDIA GPU on this machine"
    wanted = device.get("gpu")
    if wanted and not any(nvidia.is_model(wanted, card) for card in cards):
        return f"no {wanted} on this machine, which has {', '.join(cards)}"
    if why := nvidia.too_few(device, cards):
        return why
    threads = device.get("threads")
    if device.get("kind") == "cpu" and threads is not None and threads > cores:
        return f"this machine offers {cores} {'core' if cores == 1 else 'cores'}"
    return None


@cache
def cards() -> tuple[str, ...]:
    """The driver's names of this machine's NVIDIA GPUs that CUDA_VISIBLE_DEVICES allows."""
    visible = nvidia.visible(machine.gpus(), os.environ.get(nvidia.VISIBLE))
    return tuple(str(card["name"]) for card in visible)


def cores() -> int:
    """The number of cores that this process may use, by its affinity and its CPU quota."""
    return _usable_cores(frozenset(os.sched_getaffinity(0)))


@cache
def _usable_cores(allowed: frozenset[int]) -> int:
    """Reads the topology once per set of `allowed` CPUs, not once per grid point."""
    return len(affinity.read_topology())
