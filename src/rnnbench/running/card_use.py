"""State and energy use of a GPU while a run trained on it, from samples taken before and after. No
side effects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rnnbench.records.record import Epoch, Reason

HEAT_SHARE = 0.01


def card_use(
    events: Sequence[Mapping[str, Any]],
    epochs: Sequence[Epoch],
    card: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Facts for ``measured``. Empty if the card was not sampled or the training had several turns.

    - `joules_per_sample` and `card_watts`: over the whole training with its validations. None for a
      slice (MIG), since the card reports energy as a whole.
    - `card_use`: `seconds` between the two samples; `joules`; the shares of the seconds in which
      `heat` and the `power_limit` reduced the clocks; new `ecc` errors; the larger value of both
      samples for `others` (other processes), `celsius` and `memory_bytes`; `sm_mhz` and
      `memory_mhz` before and after; `slowed`: reasons for reduced clocks in either sample. Values
      that the card does not report are None.
    """
    turns = [e for e in events if e["event"] == "turn" and e.get("phase") == "train"]
    states = _states(turns[0]) if len(turns) == 1 else None
    if states is None:
        return {}
    before, after = states
    seconds = _difference(before, after, "t")
    if not seconds:
        return {}
    joules = None if (card or {}).get("slice") else _difference(before, after, "joules")
    samples = sum(epoch.samples or 0 for epoch in epochs)
    heat, power = (_difference(before, after, name) for name in ("thermal_s", "power_s"))
    return {
        "joules_per_sample": joules / samples if joules is not None and samples else None,
        "card_watts": joules / seconds if joules is not None else None,
        "card_use": {
            "seconds": seconds,
            "joules": joules,
            "heat": None if heat is None else heat / seconds,
            "power_limit": None if power is None else power / seconds,
            "ecc": _difference(before, after, "ecc"),
            **{name: _max(before, after, name) for name in ("others", "celsius", "memory_bytes")},
            **{name: [before.get(name), after.get(name)] for name in ("sm_mhz", "memory_mhz")},
            "slowed": sorted({*(before.get("slowed") or ()), *(after.get("slowed") or ())}),
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


def _states(turn: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]] | None:
    states = turn.get("card")
    if not isinstance(states, Sequence) or len(states) != 2:
        return None
    first, last = states
    return (first, last) if isinstance(first, Mapping) and isinstance(last, Mapping) else None


def _difference(before: Mapping[str, Any], after: Mapping[str, Any], name: str) -> Any:
    first, last = before.get(name), after.get(name)
    if not isinstance(first, int | float) or not isinstance(last, int | float):
        return None
    return last - first if last >= first else None  # decreased: the driver was reloaded


def _max(before: Mapping[str, Any], after: Mapping[str, Any], name: str) -> Any:
    values = [state[name] for state in (before, after) if isinstance(state.get(name), int | float)]
    return max(values, default=None)
