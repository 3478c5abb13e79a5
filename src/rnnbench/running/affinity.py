"""Which logical processors a run is pinned to: the worker's planner, with our errors."""

from __future__ import annotations

from collections.abc import Sequence

from rnnbench.errors import RunError
from rnnworker import affinity
from rnnworker.affinity import Processor, read_topology

__all__ = ["Processor", "choose", "read_topology"]


def choose(topology: Sequence[Processor], threads: int | None) -> tuple[int, ...]:
    """The processors for `threads` threads (None: all), as `rnnworker.affinity.choose` says.
    Raises `RunError` where there are too few."""
    try:
        return affinity.choose(topology, threads)
    except ValueError as error:
        raise RunError(
            f"{error}.",
            where="device.threads",
            remedy=f"choose a device with 1 to {len(topology)} threads.",
        ) from None
