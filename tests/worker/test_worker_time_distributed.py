"""A TimeDistributed beside a recurrent layer repeats products for each time step, which must not be
taken for those of the recurrent layer; around one, it keeps no inputs and outputs of that layer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.worker.building import (
    ALL_CERTIFICATES,
    answer_of,
    certificate_job,
    equal,
    settings_of,
    write,
)

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


def build_around(keras, recurrent, config):
    inputs = keras.layers.Input(shape=(10, 3))
    parts = keras.layers.Reshape((2, 5, 3))(inputs)
    hidden = keras.layers.TimeDistributed(recurrent(4))(parts)
    hidden = keras.layers.Flatten()(hidden)
    outputs = keras.layers.Dense(10, activation="sigmoid")(hidden)
    return keras.models.Model(inputs, keras.layers.Reshape((10, 1))(outputs))
"""
ATTESTED = """
import json, sys
from rnnworker import frameworks

session = frameworks.open_session(json.loads(sys.argv[1]), 1)
session.load_data(None)
session.build()
session.load_weights(session.dump_weights())
session.train_steps(1)
print(json.dumps(session.attest()["found"]))
"""


def model_in(folder: Path, build: str) -> dict[str, Any]:
    """The settings of a model of `MODEL`, which is written into `folder`."""
    write(folder, {"mine.py": MODEL})
    return {
        "function": f"{folder}/mine.py:{build}",
        "data": {"prepare": f"{folder}/mine.py:prepare"},
        "batch": 16,
        "optimizer": {"name": "adam", "learning_rate": 0.01},
        "loss": "binary_crossentropy",
    }


@pytest.mark.parametrize(
    ("build", "rnn", "kernel"),
    [
        ("current", "keras", "while"),
        ("current", "block", "block"),
        ("keras3_jax", "keras", "jax:scan"),
        ("keras3_jax", "unrolled", "unrolled"),
        ("keras3_torch", "keras", "torch:loop"),
        ("keras3_torch", "native", "torch:onednn"),
        ("tf_2_15", "block", "block"),
        ("tf_1_15", "keras", "while"),
    ],
)
def test_only_the_kernel_of_the_recurrent_layer_is_found(
    build: str, rnn: str, kernel: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    config = certificate_job("", "lstm", {})["config"]
    config["model"] = model_in(tmp_path, "build")
    config |= {"rnn": {"implementation": rnn}, "build": settings_of(build)}
    arguments = (ATTESTED, json.dumps(config))
    assert answer_of(build, *arguments, temporary=tmp_path_factory) == [kernel]


@pytest.mark.parametrize(
    ("build", "implementations"),
    [
        ("current", ["keras", "block"]),
        ("tf_1_15", ["keras", "unrolled"]),
        ("tf_2_15", ["keras", "block"]),
        ("keras3_torch", ["keras", "native"]),
    ],
)
def test_a_recurrent_layer_inside_is_certified(
    build: str,
    implementations: list[str],
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    rnns = {name: {"implementation": name, "name": name} for name in implementations}
    job = certificate_job("", "lstm", rnns)
    job["config"] |= {"model": model_in(tmp_path, "build_around"), "build": settings_of(build)}
    arguments = (ALL_CERTIFICATES, json.dumps([job]))
    (made,) = answer_of(build, *arguments, temporary=tmp_path_factory)
    for name, entry in made["implementations"].items():
        assert entry["status"] == "certified", (name, entry["why"])
    (pair,) = made["pairs"]
    assert equal(pair), pair
