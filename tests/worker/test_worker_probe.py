"""The probe: products of known layers, computed by hand, and rates on a device of known speed."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from rnnworker import probe
from tests.conftest import ROOT

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


REAL = """
import json, sys
import numpy
from rnnworker import frameworks, probe
settings = json.loads(sys.argv[1])
session = frameworks.open_session({name: settings[name] for name in ("device", "build")}, 1)
facts = probe.model_facts(settings, 1)
multiply = probe.SQUARE[settings["build"]["framework"]]
small, large = (
    min(probe.sample_rates(multiply(session, size), 2 * size**3 / 1e9)) for size in (8, 256)
)
print("RESULT " + json.dumps(dict(facts=facts, small=small, large=large)))
"""


@pytest.mark.parametrize("feed", ["host", "device"])
def test_a_real_model_in_a_real_framework(feed: str) -> None:
    settings = {
        "model": {"function": "rnnworker.models.digits_rnn:build", "units": 64, "batch": 16,
                  "data": {}, "optimizer": {"name": "adam", "learning_rate": 0.001},
                  "loss": "sparse_categorical_crossentropy"},
        "cell": {"name": "lstm"}, "rnn": {"implementation": "keras"}, "seed": 0,
        "device": {"name": "cpu_1", "kind": "cpu", "threads": 1, "feed": feed},
        "build": {"name": "current", "framework": "keras3_tensorflow"},
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", REAL, json.dumps(settings)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert lines, done.stderr[-2000:]
    result = json.loads(lines[0].removeprefix("RESULT "))
    facts = result["facts"]
    assert facts["flops_per_step"]["forward"] == FORWARD
    assert (facts["timesteps"], facts["complete"], facts["batch"]) == (8, True, 16)
    # Small products are slower than large ones on every processor; no core reaches 1 TFLOP/s.
    assert 0 < result["small"] < result["large"] < 1000
