"""Divides runs into cohorts that fit into memory. No side effects; only the available memory is
read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rnnbench.records.run import Run
from rnnbench.running import memory
from rnnworker import machine, rounds


def cohorts(
    missing: Sequence[Run],
    reference: Run | None,
    peaks: Sequence[int],
    available: int | None = None,
    card: Mapping[str, Any] | None = None,
) -> list[list[Run]]:
    """The `missing` runs in cohorts, whose members are alive at the same time.

    Each cohort includes the `reference`, since ratios are taken within a cohort. A run that does
    not take turns (``measure.turns: false``, or on a GPU without memory for two) is a cohort on its
    own.

    **Arguments:**

    - `peaks`: peak bytes of similar runs that were measured before.
    - `available`: bytes of free memory; read from this host if None.
    - `card`: as `cards.query_contexts` returns it.
    """
    on_card = rounds.gpu_capacity(card)

    def takes_turns(run: Run) -> bool:
        has_room = run.config["device"].get("kind") != "gpu" or on_card > 1
        return has_room and rounds.takes_turns(run.config)

    in_turns = [run for run in missing if takes_turns(run)]
    alone = [[run] for run in missing if not takes_turns(run)]
    on_gpu = any(run.config["device"].get("kind") == "gpu" for run in in_turns)
    size = min(max_cohort_size(missing, peaks, available), on_card if on_gpu else rounds.MOST)
    if reference is None or not takes_turns(reference):
        return alone + [in_turns[i : i + size] for i in range(0, len(in_turns), size)]
    others = [run for run in in_turns if run is not reference]
    size = max(1, size - 1)
    groups = [[reference, *others[i : i + size]] for i in range(0, len(others), size)]
    if not groups and reference in missing:
        groups = [[reference]]
    return alone + groups


def max_cohort_size(runs: Sequence[Run], peaks: Sequence[int], available: int | None = None) -> int:
    """How many of `runs` may be alive at the same time."""
    limits = [(run.config.get("limits") or {}).get("members") or rounds.MOST for run in runs]
    free = available_bytes() if available is None else available
    return min([rounds.memory_capacity(free, max(peaks, default=rounds.GUESS_BYTES)), *limits])


def available_bytes(proc: Path = Path("/proc")) -> int | None:
    """Bytes of memory that can be used without swapping and within the limit of a cluster's job.
    None if they are unknown."""
    limits = (memory.limit(proc / "self"), machine.available_memory(str(proc / "meminfo")))
    return min((limit for limit in limits if limit is not None), default=None)
