from __future__ import annotations

from typing import Any

import pytest

from rnnbench.cells.here import cores, obstacle_on, obstacles


@pytest.mark.parametrize(
    ("device", "nvidia", "why"),
    [
        ({"kind": "cpu", "threads": 2}, False, None),
        ({"kind": "cpu", "threads": 4}, False, "this machine offers 2 cores"),
        ({"kind": "cpu", "threads": None}, False, None),
        ({"kind": "gpu", "threads": None}, False, "no NVIDIA GPU on this machine"),
        ({"kind": "gpu", "threads": None}, True, None),
    ],
)
def test_on_a_machine_with_two_cores(device: dict[str, Any], nvidia: bool, why: str | None) -> None:
    assert obstacle_on(device, 2, nvidia) == why


def test_on_this_machine() -> None:
    assert obstacles({"device": {"kind": "cpu", "threads": cores()}}) is None
    assert obstacles({"device": {"kind": "cpu", "threads": cores() + 1}}) is not None
