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


def test_an_lstm_and_a_dense_layer_by_hand() -> None:
    assert probe.flops_of([LSTM, DENSE], 16) == (FORWARD, True)


def test_both_directions_count_and_an_embedding_does_not() -> None:
    both = {**LSTM, "shapes": [(prefix + name, shape) for prefix in ("forward_", "backward_")
                               for name, shape in LSTM["shapes"]]}  # fmt: skip
    one, _ = probe.flops_of([LSTM], 16)
    assert probe.flops_of([EMBEDDING, both], 16) == (2 * one, True)


def test_every_layer_of_a_stack_counts() -> None:
    shapes_of = [("layer0_kernel", [8, 256]), ("layer0_recurrent", [64, 256]),
                 ("layer1_kernel", [64, 256]), ("layer1_recurrent", [64, 256])]  # fmt: skip
    flops = 2 * 16 * 8 * (8 * 256 + 3 * 64 * 256)
    assert probe.flops_of([{**LSTM, "shapes": shapes_of}], 16) == (flops, True)


def test_uncounted_layers_are_reported() -> None:
    flops, complete = probe.flops_of([CONV, NORM, {**DENSE, "rows": 7}], 16)
    assert not complete and flops == 2 * 112 * 64 * 10
    assert probe.flops_of([NORM, DENSE], 16)[1]
    assert not probe.flops_of([{**LSTM, "steps": None}], 16)[1]
    assert not probe.flops_of([{**DENSE, "rows": None}], 16)[1]


def test_the_rate_of_a_device_of_known_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("rnnworker.probe.time.monotonic", lambda: now[0])

    def multiply() -> None:
        now[0] += 0.002

    assert probe.sample_rates(multiply, 2000) == [pytest.approx(2000 / 0.002)] * probe.SAMPLES
