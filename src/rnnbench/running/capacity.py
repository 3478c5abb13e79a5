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
    card: Mapping[str, Any] | None = None,
) -> list[list[Planned]]:
    """The runs that are `missing` in groups that live at the same time, each with the `reference`,
    which nothing is compared without. A run that is to be measured alone (``measure.turns: false``,
    or on a GPU that has no room for two) is a group of its own. `peaks`: bytes that runs like these
    needed; `available`: bytes, read here where not given; `card`: as `cards.ask_contexts` tells."""
    on_card = rounds.room_on_card(card)

    def together(run: Planned) -> bool:
        has_room = run["config"]["device"].get("kind") != "gpu" or on_card > 1
        return has_room and rounds.takes_turns(run["config"])

    beside = [run for run in missing if together(run)]
    alone = [[run] for run in missing if not together(run)]
    gpus = any(run["config"]["device"].get("kind") == "gpu" for run in beside)
    size = min(most(missing, peaks, available), on_card if gpus else rounds.MOST)
    if reference is None or not together(reference):
        return alone + [beside[i : i + size] for i in range(0, len(beside), size)]
    others = [run for run in beside if run is not reference]
    size = max(1, size - 1)
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
