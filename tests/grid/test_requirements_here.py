from __future__ import annotations

from typing import Any

import pytest

from rnnbench.grid.requirements import cores, unmet_here
from rnnworker.cards import unmet_device


@pytest.mark.parametrize(
    ("device", "cards", "why"),
    [
        ({"kind": "cpu", "threads": 2}, (), None),
        ({"kind": "cpu", "threads": 4}, (), "this machine offers 2 cores"),
        ({"kind": "cpu", "threads": None}, (), None),
        ({"kind": "gpu", "threads": None}, (), "no NVIDIA GPU on this machine"),
        ({"kind": "gpu", "threads": None}, ("Tesla P100-PCIE-16GB",), None),
        ({"kind": "gpu", "gpu": "P100 PCIE"}, ("Tesla P100-PCIE-16GB",), None),
        (
            {"kind": "gpu", "gpu": "K80"},
            ("Quadro P1000",),
            "no K80 on this machine, which has Quadro P1000",
        ),
        (
            {"kind": "gpu", "gpu": "P100"},
            ("Quadro P1000",),
            "no P100 on this machine, which has Quadro P1000",
        ),
        ({"kind": "gpu", "replicas": 2}, ("Tesla K80", "Tesla K80"), None),
        ({"kind": "gpu", "replicas": 2}, (), "no NVIDIA GPU on this machine"),
        (
            {"kind": "gpu", "replicas": 2},
            ("Tesla K80", "Tesla T4"),
            "needs 2 visible GPUs of one model, found 1 Tesla K80, 1 Tesla T4; "
            "choose device=gpu for one card",
        ),
        (
            {"kind": "gpu", "replicas": 2, "gpu": "T4"},
            ("Tesla K80", "Tesla K80", "Tesla T4"),
            "needs 2 visible GPUs of one model (T4), found 1 Tesla T4; "
            "choose device=gpu for one card",
        ),
        ({"kind": "cpu", "threads": 2, "replicas": 2}, (), None),
    ],
)
def test_on_a_machine_with_two_cores(
    device: dict[str, Any], cards: tuple[str, ...], why: str | None
) -> None:
    assert unmet_device(device, 2, cards) == why


def test_on_this_machine() -> None:
    assert unmet_here({"device": {"kind": "cpu", "threads": cores()}}) is None
    assert unmet_here({"device": {"kind": "cpu", "threads": cores() + 1}}) is not None
