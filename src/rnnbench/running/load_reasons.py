"""Who else was at work while a run was timed, or for whom it was in the way. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rnnbench.records.record import Phase, Reason

FOREIGN_SHARE = 0.05
STEAL_SHARE = 0.02
SPINS_SHARE = 0.5


def load_reasons(
    phases: Sequence[Phase],
    measured: Mapping[str, Any],
    turns: Mapping[str, Sequence[Any]],
) -> list[Reason]:
    """What of its `phases` and `turns`, and of how it slept, makes a run suspect."""
    good = turns.get("good") or ()
    in_turns = len(good) > 1
    judged = [phase for phase in phases if phase.timed and not (in_turns and phase.name == "train")]
    # What others do on cores that feed a card is in its way once they are short.
    threads = measured.get("threads") or {}
    feeders = len(threads.get("pinned_to") or []) if measured.get("card") else 1
    return [
        *(reason for phase in judged for reason in _of_phase(phase, feeders or 1)),
        *_unknown(phases),
        *(_disturbed(good) if in_turns else ()),
        *_spins(measured.get("asleep") or {}),
    ]


def _disturbed(good: Sequence[bool]) -> list[Reason]:
    """Of a run in turns: those in which others used its cores are left out, where others stay."""
    bad = len(good) - sum(good)
    if 2 * bad <= len(good):
        return []
    return [
        Reason(
            "foreign_load",
            f"other processes used its cores in {bad} of its {len(good)} turns",
            "end them and measure the run again: rnnbench retry NAME.",
        )
    ]


def _spins(asleep: Mapping[str, Any]) -> list[Reason]:
    """Threads that do not stop while their run waits disturb whoever has the turn. Those of torch
    (libgomp) go on for some 8 ms, which the other's lead-in covers: a fifth of a turn."""
    waited, used = (asleep.get(name) for name in ("seconds", "cpu_seconds"))
    if not waited or not used or used <= max(0.1, SPINS_SHARE * waited):
        return []
    return [
        Reason(
            "spins",
            f"used {used / waited:.0%} of a core while others had their turns: threads that spin",
            "measure it alone (measure.turns: false), or set OMP_WAIT_POLICY=passive, with Intel's "
            "OpenMP KMP_BLOCKTIME=0, in build.environment; its own steps may then take longer.",
        )
    ]


def _unknown(phases: Sequence[Phase]) -> list[Reason]:
    loads = [phase.details.get("load") or {} for phase in phases if phase.timed]
    if not any("own" in load and "foreign" not in load for load in loads):
        return []
    return [
        Reason(
            "load_unknown",
            "nobody can say who else used the processors: /proc/stat says nothing here",
            "measure where the kernel tells (no gVisor), or take its times as they are.",
        )
    ]


def _of_phase(phase: Phase, cores: int) -> list[Reason]:
    """Of the time of `cores` cores."""
    load = phase.details.get("load") or {}
    pinned_seconds = cores * (phase.seconds - (phase.details.get("waited") or 0.0)) or 1.0
    whole = "a core" if cores == 1 else f"its {cores} cores"
    reasons = []
    # The kernel counts in ticks of 10 ms: less than five of them is no evidence.
    if load.get("foreign", 0) > max(0.05, FOREIGN_SHARE * pinned_seconds):
        share = load["foreign"] / pinned_seconds
        reasons.append(
            Reason(
                "foreign_load",
                f"other processes used {share:.0%} of {whole} during {phase.name}",
                "end them and measure the run again: rnnbench retry NAME.",
            )
        )
    if load.get("steal", 0) > max(0.05, STEAL_SHARE * pinned_seconds):
        share = load["steal"] / pinned_seconds
        reasons.append(
            Reason(
                "steal",
                f"the hypervisor took {share:.0%} of {whole} during {phase.name}",
                "measure again, or on a machine of your own.",
            )
        )
    return reasons
