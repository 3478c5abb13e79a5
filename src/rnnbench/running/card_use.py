"""What a card was and used while a run trained on it, from looks at it before and after. Pure."""

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
    """Facts for ``measured``; empty where nobody looked, or the training had several turns.

    - `joules_per_sample` and `card_watts`: of the whole training with its validations. A slice
      has none: energy is told of the whole card.
    - `card_use`: `seconds` between the looks; `joules`; the share of them in which `heat` and the
      `power_limit` held the clocks down; new `ecc` errors; what was larger of both looks:
      `others` (processes beside this one), `celsius`, `memory_bytes`; `sm_mhz` and `memory_mhz`
      before and after; `slowed`: reasons at either. None for what the card does not tell.
    """
    turns = [e for e in events if e["event"] == "turn" and e.get("phase") == "train"]
    looks = _looks(turns[0]) if len(turns) == 1 else None
    if looks is None:
        return {}
    before, after = looks
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
            **{name: _most(before, after, name) for name in ("others", "celsius", "memory_bytes")},
            **{name: [before.get(name), after.get(name)] for name in ("sm_mhz", "memory_mhz")},
            "slowed": sorted({*(before.get("slowed") or ()), *(after.get("slowed") or ())}),
        },
    }


def card_reasons(use: Mapping[str, Any] | None) -> list[Reason]:
    """What of a ``card_use`` makes a run suspect."""
    found = []
    use = use or {}
    if (heat := use.get("heat") or 0.0) > HEAT_SHARE:
        text = f"heat held the card's clocks down for {heat:.0%} of the training"
        found.append(Reason("card_hot", text, "cool it, and measure the run again."))
    if others := use.get("others"):
        text = f"{others} other {'process' if others == 1 else 'processes'} computed on the card"
        found.append(Reason("card_shared", text, "end them and measure the run again."))
    if errors := use.get("ecc"):
        text = f"the card's memory had {errors} {'error' if errors == 1 else 'errors'}, uncorrected"
        found.append(Reason("card_ecc", text, "measure on another card."))
    return found


def _looks(turn: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]] | None:
    looks = turn.get("card")
    if not isinstance(looks, Sequence) or len(looks) != 2:
        return None
    first, last = looks
    return (first, last) if isinstance(first, Mapping) and isinstance(last, Mapping) else None


def _difference(before: Mapping[str, Any], after: Mapping[str, Any], name: str) -> Any:
    first, last = before.get(name), after.get(name)
    if not isinstance(first, int | float) or not isinstance(last, int | float):
        return None
    return last - first if last >= first else None  # less: the driver was loaded anew


def _most(before: Mapping[str, Any], after: Mapping[str, Any], name: str) -> Any:
    values = [one[name] for one in (before, after) if isinstance(one.get(name), int | float)]
    return max(values, default=None)
