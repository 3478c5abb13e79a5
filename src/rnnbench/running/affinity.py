"""Which logical processors a run is pinned to. Pure but for `read_topology`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rnnbench.errors import RunError


@dataclass(frozen=True)
class Processor:
    """One logical processor: its number, its socket, and its core within the socket."""

    number: int
    socket: int
    core: int


def choose(topology: Sequence[Processor], threads: int | None) -> tuple[int, ...]:
    """The processors for `threads` threads (None: all): distinct physical cores of one
    socket first, then of the next; hyper-thread siblings last. Raises `RunError` where
    there are too few, or none is asked for."""
    if threads is None:
        return tuple(sorted(p.number for p in topology))
    if not 1 <= threads <= len(topology):
        raise RunError(
            f"asks for {threads} threads; this machine offers {len(topology)} cores.",
            where="device.threads",
            remedy=f"choose a device with 1 to {len(topology)} threads.",
        )
    seen: dict[tuple[int, int], int] = {}
    ranked = []
    for processor in sorted(topology, key=lambda p: p.number):
        place = (processor.socket, processor.core)
        ranked.append((seen.get(place, 0), processor.socket, processor.number))
        seen[place] = seen.get(place, 0) + 1
    return tuple(sorted(number for _, _, number in sorted(ranked)[:threads]))


def read_topology(base: Path = Path("/sys/devices/system/cpu")) -> tuple[Processor, ...]:
    """The processors this process may use, as the kernel lists them."""
    return tuple(
        Processor(
            number,
            _number(base / f"cpu{number}/topology/physical_package_id", 0),
            _number(base / f"cpu{number}/topology/core_id", number),
        )
        for number in sorted(os.sched_getaffinity(0))
    )


def _number(path: Path, default: int) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return default
