"""What this machine offers, as reasons why a config cannot run on it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from rnnworker import affinity, machine
from rnnworker import cards as nvidia


def unmet_constraints(config: Mapping[str, Any]) -> str | None:
    """Why `config` cannot run on this machine, or None."""
    return unmet_on(config["device"], cores(), cards())


def unmet_on(device: Mapping[str, Any], cores: int, cards: Sequence[str]) -> str | None:
    """Why a run cannot have `device` on a machine with `cores` and the GPUs `cards`, named
    as their driver does. A device without a thread count takes what there is."""
    if device.get("kind") == "gpu" and not cards:
        return "no NVIDIA GPU on this machine"
    wanted = device.get("gpu")
    if wanted and not any(nvidia.is_card(wanted, card) for card in cards):
        return f"no {wanted} on this machine, which has {', '.join(cards)}"
    threads = device.get("threads")
    if device.get("kind") == "cpu" and threads is not None and threads > cores:
        return f"this machine offers {cores} {'core' if cores == 1 else 'cores'}"
    return None


@cache
def cards() -> tuple[str, ...]:
    """The NVIDIA GPUs of this machine that CUDA_VISIBLE_DEVICES leaves to us, as their driver
    names them."""
    found = nvidia.visible(machine.gpus(), os.environ.get(nvidia.VISIBLE))
    return tuple(str(card["name"]) for card in found)


def cores() -> int:
    """The cores this process may use, and has time for."""
    if hasattr(os, "sched_getaffinity"):
        return _offered(frozenset(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


@cache
def _offered(allowed: frozenset[int]) -> int:
    """Of thousands of cells each asks, and the kernel is asked once for what is `allowed`."""
    return len(affinity.read_topology())
