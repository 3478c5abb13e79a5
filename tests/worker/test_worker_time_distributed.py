"""A TimeDistributed beside a recurrent layer repeats products for each time step, which must not be
taken for those of the recurrent layer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.worker.building import answer_of, certificate_job, settings_of, write

MODEL = """
import numpy


def prepare(source, config):
    stream = numpy.random.RandomState(0)
    x = stream.normal(size=(48, 10, 3)).astype("float32")
    y = (x[:, :, :1] > 0).astype("float32")
    return {"x_train": x[:32], "y_train": y[:32], "x_val": x[32:], "y_val": y[32:]}


def build(keras, recurrent, config):
    distributed = keras.layers.TimeDistributed
    inputs = keras.layers.Input(shape=(10, 3))
    hidden = distributed(keras.layers.Dense(4))(inputs)
    hidden = recurrent(4, return_sequences=True)(hidden)
    outputs = distributed(keras.layers.Dense(1, activation="sigmoid"))(hidden)
    return keras.models.Model(inputs, outputs)
"""
ATTESTED = """
import json, sys
from rnnworker import canonical_weights, frameworks

session = frameworks.open_session(json.loads(sys.argv[1]), 1)
session.load_data(None)
session.build()
session.load_weights(canonical_weights.initial(session.layers(), 0))
session.train_steps(1)
print(json.dumps(session.attest()["found"]))
"""


@pytest.mark.parametrize(
    ("build", "rnn", "kernel"),
    [
        ("current", "keras", "while"),
        ("current", "block", "block"),
        ("keras3_jax", "keras", "jax:scan"),
        ("keras3_jax", "unrolled", "unrolled"),
        ("keras3_torch", "keras", "torch:loop"),
        ("keras3_torch", "native", "torch:onednn"),
        ("tf_2_15", "keras", "while"),
        ("tf_1_15", "keras", "while"),
    ],
)
def test_only_the_kernel_of_the_recurrent_layer_is_found(
    build: str, rnn: str, kernel: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    write(tmp_path, {"mine.py": MODEL})
    config = certificate_job("", "lstm", {})["config"]
    config["model"] = {
        "function": f"{tmp_path}/mine.py:build",
        "data": {"prepare": f"{tmp_path}/mine.py:prepare"},
        "batch": 16,
        "optimizer": {"name": "adam", "learning_rate": 0.01},
        "loss": "binary_crossentropy",
    }
    config |= {"rnn": {"implementation": rnn}, "build": settings_of(build)}
    arguments = (ATTESTED, json.dumps(config))
    assert answer_of(build, *arguments, temporary=tmp_path_factory) == [kernel]
