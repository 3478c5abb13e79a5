"""Decides whether a run had the requested device, from facts about the machine. No side effects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rnnbench.records.record import Reason
from rnnworker import cards

REMEDY = "run it on a machine that has the requested device."


def device_reasons(
    device: Mapping[str, Any], measured: Mapping[str, Any], hardware: Mapping[str, Any]
) -> list[Reason]:
    """Reasons why the run did not have the requested device.

    **Arguments:**

    - `device`: the requested device: ``kind``, ``threads``, ``replicas``, and ``gpu``, the model of
      the card.
    - `measured`: facts reported by the framework: ``threads``, ``replicas``, ``framework_devices``,
      and the names of its ``framework_cards``; and ``card``, the one assigned to the run, with its
      ``further`` ones (`cards.select_card`).
    - `hardware`: the machine's fingerprint: ``gpus``, each with its ``name``; used if the assigned
      card is unknown.
    """
    seen = [str(name).upper() for name in measured.get("framework_devices") or []]
    gpus = [name for name in seen if "GPU" in name or "CUDA" in name]
    texts = [*_threads(measured.get("threads") or {})]
    requested, used = cards.replicas_of(device), measured.get("replicas") or 1
    if seen and used != requested:
        texts.append(f"training on {requested} devices was requested, but it used {used}")
    if device.get("kind") == "cpu" and gpus:
        texts.append(f"a CPU run saw {', '.join(gpus)}")
    if device.get("kind") == "gpu" and seen and not gpus:
        texts.append("the framework saw no GPU")
    if device.get("kind") == "gpu":
        texts += _card(device.get("gpu"), gpus, measured, hardware)
    return [Reason("wrong_device", text, REMEDY) for text in texts]


def _card(
    requested: str | None,
    seen: list[str],
    measured: Mapping[str, Any],
    hardware: Mapping[str, Any],
) -> list[str]:
    card = measured.get("card")
    reported = [str(name) for name in measured.get("framework_cards") or []]
    assigned = cards.all_cards(card)
    gpus = assigned or hardware.get("gpus") or []
    names = sorted({str(gpu.get("name")) for gpu in gpus} | set(reported))
    texts = []
    if requested and not all(cards.is_model(requested, name) for name in names):
        texts.append(f"{requested} was requested, but the card is {', '.join(names)}")
    elif card and not all(cards.is_model(str(card.get("name")), name) for name in reported):
        saw = ", ".join(reported)
        texts.append(f"card {card.get('name')} was assigned, but the framework saw {saw}")
    if card and seen and len(seen) != len(assigned):
        number = "one card was" if len(assigned) == 1 else f"{len(assigned)} cards were"
        saw = f"{len(seen)}: {', '.join(seen)}"
        texts.append(f"{number} assigned, but the framework saw {saw}")
    return texts


def _threads(threads: Mapping[str, Any]) -> list[str]:
    requested = threads.get("asked")
    actual = {
        "intra_op": threads.get("intra_op"),
        "pinned_to": len(threads["pinned_to"]) if "pinned_to" in threads else None,
    }
    return [
        f"{requested} threads were requested, but {key} is {number}"
        for key, number in actual.items()
        if requested is not None and number is not None and number != requested
    ]
