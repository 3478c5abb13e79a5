"""How many runs may live at the same time. Pure, but for reading how much memory there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rnnbench.running import memory

GUESS_BYTES = 1_500_000_000  # of a run that nobody has measured
SHARE = 0.7  # of the memory that is available
MOST = 16  # `limits.members` of a config says otherwise

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
    together = [run for run in missing if in_turns(run)]
    alone = [[run] for run in missing if not in_turns(run)]
    if reference is None or not in_turns(reference):
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
    limits = [(run["config"].get("limits") or {}).get("members") or MOST for run in runs]
    each = max(peaks, default=GUESS_BYTES)
    room = available_bytes() if available is None else available
    fits = MOST if room is None else int(SHARE * room // each)
    return max(1, min([fits, *limits]))


def in_turns(run: Planned) -> bool:
    """Whether a run trains in turns with others. Not on a GPU: whether two contexts on one card
    disturb one another is not known before it is measured on a real one."""
    config = run["config"]
    wanted = (config.get("measure") or {}).get("turns", True)
    return bool(wanted) and config["device"].get("kind") != "gpu"


def available_bytes(proc: Path = Path("/proc")) -> int | None:
    """The memory that may be taken without swapping, and without being more than a job of a cluster
    is allowed. None where nobody says."""
    found = [memory.limit(proc / "self")]
    with suppress(OSError, ValueError):
        for line in (proc / "meminfo").read_text().splitlines():
            name, _, value = line.partition(":")
            if name == "MemAvailable":
                found.append(1024 * int(value.split()[0]))
    return min((one for one in found if one is not None), default=None)
