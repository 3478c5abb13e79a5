"""Reasons about load: other processes that disturbed a timed run, or other runs that it disturbed.
No side effects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rnnbench.records.record import Phase, Reason

FOREIGN_SHARE = 0.05
STEAL_SHARE = 0.02
SPINS_SHARE = 0.5
STOP_THEM = "stop them and measure the run again: rnnbench retry NAME."


def load_reasons(
    phases: Sequence[Phase],
    measured: Mapping[str, Any],
    disturbed: Sequence[bool],
) -> list[Reason]:
    """Reasons from a run's `phases`, from its `disturbed` turns (one value per turn), and from its
    CPU use while it waited, that make it suspect."""
    in_turns = len(disturbed) > 1
    judged = [phase for phase in phases if phase.timed and not (in_turns and phase.name == "train")]
    # Other processes on the cores that feed a card matter only once those cores are scarce.
    threads = measured.get("threads") or {}
    feeders = len(threads.get("pinned_to") or []) if measured.get("card") else 1
    return [
        *(reason for phase in judged for reason in _of_phase(phase, feeders or 1)),
        *_unknown_load(phases),
        *(_disturbed_turns(disturbed) if in_turns else ()),
        *_spins(measured.get("asleep") or {}),
    ]


def _disturbed_turns(disturbed: Sequence[bool]) -> list[Reason]:
    """Most turns of a run were disturbed. A minority of disturbed turns is excluded from its ratios
    and needs no reason."""
    bad = sum(disturbed)
    if 2 * bad <= len(disturbed):
        return []
    text = f"other processes used the cores in {bad} of its {len(disturbed)} turns"
    return [Reason("foreign_load", text, STOP_THEM)]


def _spins(asleep: Mapping[str, Any]) -> list[Reason]:
    """Threads that do not sleep while their run waits disturb the run that has the turn. Those of
    torch (libgomp) spin for some 8 ms, which the lead-in of the next turn (a fifth of a turn)
    covers."""
    waited, used = (asleep.get(name) for name in ("seconds", "cpu_seconds"))
    if not waited or not used or used <= max(0.1, SPINS_SHARE * waited):
        return []
    return [
        Reason(
            "spins",
            f"used {used / waited:.0%} of a core while others had their turns: its threads spin",
            "measure it on its own (measure.turns: false), or set OMP_WAIT_POLICY=passive (with "
            "Intel's OpenMP KMP_BLOCKTIME=0) in build.environment; its steps may then take longer.",
        )
    ]


def _unknown_load(phases: Sequence[Phase]) -> list[Reason]:
    loads = [phase.details.get("load") or {} for phase in phases if phase.timed]
    if not any("own" in load and "foreign" not in load for load in loads):
        return []
    return [
        Reason(
            "load_unknown",
            "the load of other processes is unknown: /proc/stat does not report it on this host",
            "measure on a host that reports it (not under gVisor), or accept the times as they "
            "are.",
        )
    ]


def _of_phase(phase: Phase, cores: int) -> list[Reason]:
    """Load of other processes as a share of the time of `cores` cores in the phase."""
    load = phase.details.get("load") or {}
    pinned_seconds = cores * (phase.seconds - (phase.details.get("waited") or 0.0)) or 1.0
    core_label = "a core" if cores == 1 else f"its {cores} cores"
    reasons = []
    # The kernel counts in ticks of 10 ms: fewer than five ticks are not evidence.
    if load.get("foreign", 0) > max(0.05, FOREIGN_SHARE * pinned_seconds):
        share = load["foreign"] / pinned_seconds
        text = f"other processes used {share:.0%} of {core_label} during {phase.name}"
        reasons.append(Reason("foreign_load", text, STOP_THEM))
    if load.get("steal", 0) > max(0.05, STEAL_SHARE * pinned_seconds):
        share = load["steal"] / pinned_seconds
        text = f"the hypervisor took {share:.0%} of {core_label} during {phase.name}"
        reasons.append(Reason("steal", text, "measure again, or on a dedicated machine."))
    return reasons
