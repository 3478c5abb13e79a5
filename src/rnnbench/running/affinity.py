"""Which logical processors a run is pinned to: the worker's planner, with our errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rnnbench.errors import RunError
from rnnworker import affinity
from rnnworker.affinity import Processor, read_topology

__all__ = ["Processor", "choose", "for_device", "read_topology"]


def choose(topology: Sequence[Processor], threads: int | None) -> tuple[int, ...]:
    """The processors for `threads` threads (None: all), as `rnnworker.affinity.choose` says.
    Raises `RunError` where there are too few."""
    return _chosen(lambda: affinity.choose(topology, threads), topology)


def for_device(
    topology: Sequence[Processor], device: Mapping[str, Any], card: Mapping[str, Any] | None
) -> tuple[int, ...]:
    """The same for a run on `device` that uses `card`, as `rnnworker.affinity.for_device` says."""
    return _chosen(lambda: affinity.for_device(topology, device, card), topology)


def _chosen(
    choosing: Callable[[], tuple[int, ...]], topology: Sequence[Processor]
) -> tuple[int, ...]:
    try:
        return choosing()
    except ValueError as error:
        raise RunError(
            f"{error}.",
            where="device.threads",
            remedy=f"choose a device with 1 to {len(topology)} threads.",
        ) from None
