"""Whether other processes or other work on the card disturbed a run. No side effects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rnnbench.records.record import Epoch, Phase, Reason

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


HEAT_SHARE = 0.01


def card_use(
    events: Sequence[Mapping[str, Any]],
    epochs: Sequence[Epoch],
) -> dict[str, Any]:
    """Facts for ``measured``. Empty if the card was not sampled or the training had several turns.

    Of several cards: the sum of energy and errors, the largest share, temperature and memory, the
    lowest clocks, the reasons of any; a sum is None if a card does not report its part.

    - `joules_per_sample` and `card_watts`: over the whole training with its validations.
    - `card_use`: `seconds` between the two samples; `joules`; the shares of the seconds in which
      `heat` and the `power_limit` reduced the clocks; new `ecc` errors; the larger value of both
      samples for `others` (other processes), `celsius` and `memory_bytes`; `sm_mhz` and
      `memory_mhz` before and after; `slowed`: reasons for reduced clocks in either sample. Values
      that the card does not report are None.
    """
    turns = [e for e in events if e["event"] == "turn" and e.get("phase") == "train"]
    states = _states(turns[0]) if len(turns) == 1 else []
    if not states:
        return {}
    seconds = _difference(*states[0], "t")
    if not seconds:
        return {}
    joules = _sum(states, "joules")
    samples = sum(epoch.samples or 0 for epoch in epochs)
    heat, power = (_largest_difference(states, name) for name in ("thermal_s", "power_s"))
    return {
        "joules_per_sample": joules / samples if joules is not None and samples else None,
        "card_watts": joules / seconds if joules is not None else None,
        "card_use": {
            "seconds": seconds,
            "joules": joules,
            "heat": None if heat is None else heat / seconds,
            "power_limit": None if power is None else power / seconds,
            "ecc": _sum(states, "ecc"),
            **{name: _max(states, name) for name in ("others", "celsius", "memory_bytes")},
            **{name: _lowest(states, name) for name in ("sm_mhz", "memory_mhz")},
            "slowed": sorted(
                {why for pair in states for at in pair for why in at.get("slowed") or ()}
            ),
        },
    }


def card_reasons(use: Mapping[str, Any] | None) -> list[Reason]:
    """Why a ``card_use`` makes a run suspect."""
    reasons = []
    use = use or {}
    if (heat := use.get("heat") or 0.0) > HEAT_SHARE:
        text = f"heat reduced the card's clocks for {heat:.0%} of the training"
        reasons.append(Reason("card_hot", text, "improve the cooling and measure the run again."))
    if others := use.get("others"):
        text = f"{others} other {'process' if others == 1 else 'processes'} used the card"
        reasons.append(Reason("card_shared", text, "stop them and measure the run again."))
    if errors := use.get("ecc"):
        text = f"the card's memory had {errors} uncorrected {'error' if errors == 1 else 'errors'}"
        reasons.append(Reason("card_ecc", text, "measure on another card."))
    return reasons


State = Mapping[str, Any]


def _states(turn: Mapping[str, Any]) -> list[tuple[State, State]]:
    """The states of each card before and after `turn`; none if it was not sampled."""
    samples = turn.get("card")
    if not isinstance(samples, Sequence) or len(samples) != 2:
        return []
    if not all(isinstance(at, Mapping) for at in samples):
        return []
    before, after = ([at, *(at.get("further") or ())] for at in samples)
    return list(zip(before, after, strict=True))


def _difference(before: State, after: State, name: str) -> Any:
    first, last = before.get(name), after.get(name)
    if not isinstance(first, int | float) or not isinstance(last, int | float):
        return None
    return last - first if last >= first else None  # decreased: the driver was reloaded


def _sum(states: Sequence[tuple[State, State]], name: str) -> Any:
    differences = [_difference(*pair, name) for pair in states]
    return None if None in differences else sum(differences)


def _largest_difference(states: Sequence[tuple[State, State]], name: str) -> Any:
    differences = [_difference(*pair, name) for pair in states]
    return max((value for value in differences if value is not None), default=None)


def _max(states: Sequence[tuple[State, State]], name: str) -> Any:
    return max((value for pair in states for value in _numbers(pair, name)), default=None)


def _lowest(states: Sequence[tuple[State, State]], name: str) -> list[Any]:
    """Before and after."""
    return [min(_numbers(at, name), default=None) for at in zip(*states, strict=True)]


def _numbers(states: Sequence[State], name: str) -> list[Any]:
    return [state[name] for state in states if isinstance(state.get(name), int | float)]
