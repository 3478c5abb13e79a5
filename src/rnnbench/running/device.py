"""Did the run have the device it asked for? Pure decisions about what was read off the machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rnnbench.records.record import Reason
from rnnworker import cards

REMEDY = "run it where the device it asks for can be had."


def device_reasons(
    device: Mapping[str, Any], measured: Mapping[str, Any], hardware: Mapping[str, Any]
) -> list[Reason]:
    """Reasons why this was another device than `device` asks for.

    **Arguments:**

    - `device`: the choice: ``kind``, ``threads``, and ``gpu``, the model of the card.
    - `measured`: what the framework said: ``threads``, ``framework_devices``, and the names of
      its ``framework_cards``; and ``card``, the one that the run was given (`cards.chosen`).
    - `hardware`: the machine's fingerprint: ``gpus``, each with its ``name``; looked at where it
      is not known which card was given.
    """
    seen = [str(name).upper() for name in measured.get("framework_devices") or []]
    gpus = [name for name in seen if "GPU" in name or "CUDA" in name]
    texts = [*_threads(measured.get("threads") or {})]
    if device.get("kind") == "cpu" and gpus:
        texts.append(f"a CPU run saw {', '.join(gpus)}")
    if device.get("kind") == "gpu" and seen and not gpus:
        texts.append("the framework saw no GPU")
    if device.get("kind") == "gpu":
        texts += _card(device.get("gpu"), gpus, measured, hardware)
    return [Reason("wrong_device", text, REMEDY) for text in texts]


def _card(
    wanted: str | None,
    seen: list[str],
    measured: Mapping[str, Any],
    hardware: Mapping[str, Any],
) -> list[str]:
    card = measured.get("card")
    told = [str(name) for name in measured.get("framework_cards") or []]
    given = [card] if card else hardware.get("gpus") or []
    names = sorted({str(one.get("name")) for one in given} | set(told))
    texts = []
    if wanted and not all(cards.is_card(wanted, name) for name in names):
        texts.append(f"asked for a {wanted}, the card is {', '.join(names)}")
    elif card and told and not all(cards.is_card(str(card.get("name")), name) for name in told):
        texts.append(f"was given the card {card.get('name')}, the framework saw {', '.join(told)}")
    if card and len(seen) > 1:
        texts.append(f"was given one card, the framework saw {len(seen)}: {', '.join(seen)}")
    return texts


def _threads(threads: Mapping[str, Any]) -> list[str]:
    asked = threads.get("asked")
    found = {
        "intra_op": threads.get("intra_op"),
        "pinned_to": len(threads["pinned_to"]) if "pinned_to" in threads else None,
    }
    return [
        f"asked for {asked} threads, {key} says {number}"
        for key, number in found.items()
        if asked is not None and number is not None and number != asked
    ]
