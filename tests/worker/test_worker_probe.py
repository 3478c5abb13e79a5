"""The probe: products of known layers, computed by hand, and rates on a device of known speed."""

from __future__ import annotations

import pytest

from rnnworker import probe


def layer(kind: str = "other", rows: int | None = 1, steps=None, dense=False, **shapes) -> dict:
    facts = {"name": "layer", "kind": kind, "steps": steps, "rows": rows, "dense": dense}
    return {**facts, "shapes": list(shapes.items())}


SHAPES = {"bias": [256], "kernel": [8, 256], "recurrent": [64, 256]}
LSTM = layer("recurrent", steps=8, **SHAPES)
DIRECTIONS = ("forward", "backward")
BOTH = {f"{direction}_{name}": SHAPES[name] for direction in DIRECTIONS for name in SHAPES}
STACKED = {"layer0_kernel": [8, 256], "layer0_recurrent": [64, 256]}
STACKED |= {"layer1_kernel": [64, 256], "layer1_recurrent": [64, 256]}
DENSE = layer(dense=True, kernel=[64, 10], bias=[10])
EMBEDDING = layer("embedding", rows=5, embeddings=[100, 8])
NORM, CONV = layer(gamma=[64], beta=[64]), layer(kernel=[3, 3, 1, 8])
RECURRENT_FLOPS, DENSE_FLOPS = 2 * 16 * 8 * (8 * 256 + 64 * 256), 2 * 16 * 64 * 10


@pytest.mark.parametrize(
    ("layers", "flops", "complete"),
    [
        ([LSTM, DENSE], RECURRENT_FLOPS + DENSE_FLOPS, True),
        ([EMBEDDING, layer("recurrent", steps=8, **BOTH)], 2 * RECURRENT_FLOPS, True),
        ([layer("recurrent", steps=8, **STACKED)], 2 * 16 * 8 * (8 * 256 + 3 * 64 * 256), True),
        ([NORM, DENSE], DENSE_FLOPS, True),
        ([CONV, NORM, {**DENSE, "rows": 7}], 7 * DENSE_FLOPS, False),
        ([{**LSTM, "steps": None}, DENSE], DENSE_FLOPS, False),
        ([{**DENSE, "rows": None}, LSTM], RECURRENT_FLOPS, False),
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
