"""The probe: products of known layers, computed by hand, and rates on a device of known speed."""

from __future__ import annotations

import pytest

from rnnworker import probe

LSTM = {"name": "lstm", "kind": "recurrent", "steps": 8, "rows": 1, "dense": False,
        "shapes": [("bias", [256]), ("kernel", [8, 256]), ("recurrent", [64, 256])]}  # fmt: skip
DENSE = {"name": "dense", "kind": "other", "steps": None, "rows": 1, "dense": True,
         "shapes": [("kernel", [64, 10]), ("bias", [10])]}  # fmt: skip
EMBEDDING = {"name": "e", "kind": "embedding", "steps": None, "rows": 5, "dense": False,
             "shapes": [("embeddings", [100, 8])]}  # fmt: skip
NORM = {**DENSE, "name": "norm", "dense": False, "shapes": [("gamma", [64]), ("beta", [64])]}
CONV = {**DENSE, "name": "conv", "dense": False, "shapes": [("kernel", [3, 3, 1, 8])]}
FORWARD = 2 * 16 * (8 * (8 * 256 + 64 * 256) + 64 * 10)


RECURRENT = FORWARD - 2 * 16 * 64 * 10
BOTH = {**LSTM, "shapes": [(prefix + name, shape) for prefix in ("forward_", "backward_")
                           for name, shape in LSTM["shapes"]]}  # fmt: skip
STACKED = [8, 256], [64, 256], [64, 256], [64, 256]
NAMES = ("layer0_kernel", "layer0_recurrent", "layer1_kernel", "layer1_recurrent")
STACK = {**LSTM, "shapes": list(zip(NAMES, STACKED, strict=True))}


@pytest.mark.parametrize(
    ("layers", "flops", "complete"),
    [
        ([LSTM, DENSE], FORWARD, True),
        ([EMBEDDING, BOTH], 2 * RECURRENT, True),
        ([STACK], 2 * 16 * 8 * (8 * 256 + 3 * 64 * 256), True),
        ([NORM, DENSE], 2 * 16 * 64 * 10, True),
        ([CONV, NORM, {**DENSE, "rows": 7}], 2 * 112 * 64 * 10, False),
        ([{**LSTM, "steps": None}, DENSE], 2 * 16 * 64 * 10, False),
        ([{**DENSE, "rows": None}, LSTM], RECURRENT, False),
    ],
)
def test_products_of_layers_by_hand(layers: list[dict], flops: int, complete: bool) -> None:
    assert probe.flops_of(layers, 16) == (flops, complete)


def test_the_rate_of_a_device_of_known_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("rnnworker.probe.time.monotonic", lambda: now[0])

    def multiply() -> None:
        now[0] += 0.002

    assert probe.sample_rates(multiply, 2000) == [pytest.approx(2000 / 0.002)] * probe.SAMPLES
