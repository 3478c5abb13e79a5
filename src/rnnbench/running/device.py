"""Did the run have the device it asked for? Pure decisions about what was read off the machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rnnbench.records.record import Reason
from rnnworker import machine

REMEDY = "run it where the device it asks for can be had."


def device_reasons(
    device: Mapping[str, Any], measured: Mapping[str, Any], hardware: Mapping[str, Any]
) -> list[Reason]:
    """Reasons why this was another device than `device` asks for.

    **Arguments:**

    - `device`: the choice: ``kind``, ``threads``, and ``gpu``, a word of the card's name.
    - `measured`: what the framework said: ``threads``, ``framework_devices``.
    - `hardware`: the machine's fingerprint: ``gpus``, each with its ``name``.
    """
    seen = [str(name).upper() for name in measured.get("framework_devices") or []]
    gpus = [name for name in seen if "GPU" in name or "CUDA" in name]
    texts = [*_threads(measured.get("threads") or {})]
    if device.get("kind") == "cpu" and gpus:
        texts.append(f"a CPU run saw {', '.join(gpus)}")
    if device.get("kind") == "gpu" and seen and not gpus:
        texts.append("the framework saw no GPU")
    wanted = device.get("gpu")
    cards = [str(card.get("name")) for card in hardware.get("gpus") or []]
    if wanted and cards and not any(machine.is_card(wanted, card) for card in cards):
        texts.append(f"asked for a {wanted}, the card is {', '.join(cards)}")
    return [Reason("wrong_device", text, REMEDY) for text in texts]


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
