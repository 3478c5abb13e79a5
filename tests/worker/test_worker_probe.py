"""The probe: products of known layers, computed by hand, and rates on a device of known speed."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time

import pytest

from rnnworker import probe
from rnnworker.probing import layers
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


def shapes(products, step):
    return [(p["m"], p["k"], p["n"], p["times"]) for p in products if p["pass"] == step]


def test_an_lstm_and_a_dense_layer_by_hand() -> None:
    products, complete = layers.products_of([LSTM, DENSE], 16)
    assert complete
    assert shapes(products, "forward") == [(16, 8, 256, 8), (16, 64, 256, 8), (16, 64, 10, 1)]
    # The gradient of the model's inputs is not computed.
    assert shapes(products, "inputs") == [(16, 256, 64, 8), (16, 10, 64, 1)]
    assert shapes(products, "weights") == [(8, 16, 256, 8), (64, 16, 256, 8), (64, 16, 10, 1)]
    assert layers.flops_per_step(products) == {"forward": FORWARD, "training": 3 * FORWARD}
    dense = [product for product in products if product["layer"] == "dense"]
    assert layers.bytes_per_step(dense) == 3 * 4 * (16 * 64 + 64 * 10 + 16 * 10)


def test_both_directions_count_and_an_embedding_does_not() -> None:
    both = {**LSTM, "shapes": [(prefix + name, shape) for prefix in ("forward_", "backward_")
                               for name, shape in LSTM["shapes"]]}  # fmt: skip
    products, complete = layers.products_of([EMBEDDING, both], 16)
    assert complete
    assert shapes(products, "forward") == 2 * [(16, 8, 256, 8), (16, 64, 256, 8)]
    assert len(shapes(products, "inputs")) == 4  # the embedding's vectors have gradients


def test_only_the_first_layer_of_a_stack_has_the_models_inputs() -> None:
    shapes_of = [("layer0_kernel", [8, 256]), ("layer0_recurrent", [64, 256]),
                 ("layer1_kernel", [64, 256]), ("layer1_recurrent", [64, 256])]  # fmt: skip
    products, complete = layers.products_of([{**LSTM, "shapes": shapes_of}], 16)
    assert complete
    assert shapes(products, "forward") == [(16, 8, 256, 8)] + 3 * [(16, 64, 256, 8)]
    assert shapes(products, "inputs") == 3 * [(16, 256, 64, 8)]


def test_uncounted_layers_are_reported() -> None:
    products, complete = layers.products_of([CONV, NORM, {**DENSE, "rows": 7}], 16)
    assert not complete and shapes(products, "forward") == [(112, 64, 10, 1)]
    assert layers.products_of([NORM, DENSE], 16)[1]
    assert not layers.products_of([{**LSTM, "steps": None}], 16)[1]
    assert not layers.products_of([{**DENSE, "rows": None}], 16)[1]


def test_the_rate_of_a_device_of_known_speed() -> None:
    class Slow:
        def products(self, m, k, n, count):
            return lambda: time.sleep(count * 0.002)

    assert probe.product_rate(Slow(), 10, 10, 10) == pytest.approx(2000 / 0.002 / 1e9, rel=0.5)


def test_arrays_exceed_every_cache() -> None:
    mebi = 2**20
    assert probe.array_bytes({"L1": "32K", "L3": "64M"}) == 256 * mebi
    assert probe.array_bytes({"L2": "512K"}) == probe.array_bytes({}) == 128 * mebi
    assert probe.array_bytes({"L3": "1G"}) == 512 * mebi


REAL = """
import json, sys
import numpy
from rnnworker import frameworks, probe
from rnnworker.probing import arithmetic, layers
settings = json.loads(sys.argv[1])
session = frameworks.open_session({name: settings[name] for name in ("device", "build")}, 1)
device = arithmetic(session)
entry = dict(model="digits_rnn", cell="lstm", config="d", settings=settings)
facts = probe.model_facts(entry, 1, device, {})
small, large = (probe.product_rate(device, n, n, n) for n in (8, 256))
bandwidth = probe.sample_rates(device.addition(2**22), 3 * 2**24 / 1e9)
print("RESULT " + json.dumps(dict(facts=facts, small=small, large=large, bandwidth=bandwidth)))
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
    assert facts["products_s"] == pytest.approx(sum(
        p["times"] * 2e-9 * p["m"] * p["k"] * p["n"] / p["gflops"] for p in facts["products"]
    ))  # fmt: skip
    # Small products are slower than large ones on every processor; no core reaches 1 TFLOP/s.
    assert 0 < result["small"] < result["large"] < 1000
    assert 0.05 < statistics.median(result["bandwidth"]) < 500
