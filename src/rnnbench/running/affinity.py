"""Logical processors that a run is pinned to: `rnnworker.affinity` with rnnbench's errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rnnbench.errors import RunError
from rnnworker import affinity
from rnnworker.affinity import Processor, read_topology

__all__ = ["Processor", "choose", "for_device", "read_topology"]


def choose(topology: Sequence[Processor], threads: int | None) -> tuple[int, ...]:
    """The processors for `threads` threads (None: all) by `rnnworker.affinity.choose`. Raises
    `RunError` if there are too few."""
    return _checked(lambda: affinity.choose(topology, threads), topology)


def for_device(
    topology: Sequence[Processor], device: Mapping[str, Any], card: Mapping[str, Any] | None
) -> tuple[int, ...]:
    """The processors for a run on `device` that uses `card`, by `rnnworker.affinity.for_device`.
    Raises `RunError` if there are too few."""
    return _checked(lambda: affinity.for_device(topology, device, card), topology)


def _checked(
    choose_processors: Callable[[], tuple[int, ...]], topology: Sequence[Processor]
) -> tuple[int, ...]:
    try:
        return choose_processors()
    except ValueError as error:
        raise RunError(
            f"{error}.",
            where="device.threads",
            remedy=f"choose a device with 1 to {len(topology)} threads.",
        ) from None
