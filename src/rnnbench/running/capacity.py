"""How many runs may live at the same time. Pure, but for reading how much memory there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rnnbench.running import memory
from rnnworker import machine, rounds

Planned = Mapping[str, Any]


def sittings(
    missing: Sequence[Planned],
    reference: Planned | None,
    peaks: Sequence[int],
    available: int | None = None,
) -> list[list[Planned]]:
    """The runs that are `missing` in groups that live at the same time, each with the `reference`,
    which nothing is compared without. A run that is to be measured alone (``measure.turns: false``)
    is a group of its own. `peaks`: bytes that runs like these needed; `available`: bytes, read here
    where not given."""
    together = [run for run in missing if rounds.takes_turns(run["config"])]
    alone = [[run] for run in missing if not rounds.takes_turns(run["config"])]
    if reference is None or not rounds.takes_turns(reference["config"]):
        size = most(missing, peaks, available)
        return alone + [together[i : i + size] for i in range(0, len(together), size)]
    others = [run for run in together if run is not reference]
    size = max(1, most(missing, peaks, available) - 1)
    groups = [[reference, *others[i : i + size]] for i in range(0, len(others), size)]
    if not groups and reference in missing:
        groups = [[reference]]
    return alone + groups


def most(runs: Sequence[Planned], peaks: Sequence[int], available: int | None = None) -> int:
    """How many of `runs` may live at the same time."""
    limits = [(run["config"].get("limits") or {}).get("members") or rounds.MOST for run in runs]
    free = available_bytes() if available is None else available
    return min([rounds.room(free, max(peaks, default=rounds.GUESS_BYTES)), *limits])


def available_bytes(proc: Path = Path("/proc")) -> int | None:
    """The memory that may be taken without swapping, and without being more than a job of a cluster
    is allowed. None where nobody says."""
    found = (memory.limit(proc / "self"), machine.available_memory(str(proc / "meminfo")))
    return min((one for one in found if one is not None), default=None)
