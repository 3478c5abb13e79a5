"""The kernel of a small model is found after any number of training steps. TensorFlow considers its
ops cheap after a while, and on a GPU from the beginning, and then reports them only at the
profiler's level 3."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rnnbench.grid.expand import expand
from rnnbench.grid.experiment import Experiment
from tests.conftest import ROOT
from tests.worker.building import answer, build_python

MODEL = """
import numpy

def prepare(source, config):
    stream = numpy.random.RandomState(0)
    x, y = stream.rand(64, 20, 4).astype("float32"), stream.randint(0, 2, 64)
    return {"x_train": x, "y_train": y, "x_val": x[:32], "y_val": y[:32]}

def build(keras, recurrent, config):
    inputs = keras.layers.Input(shape=(20, 4))
    outputs = keras.layers.Dense(2, activation="softmax")(recurrent(16)(inputs))
    return keras.models.Model(inputs, outputs)
"""
YAML = """
about: a small model
function: small.py:build
data: {prepare: small.py:prepare}
batch: 32
epochs: 2
optimizer: {name: adam, learning_rate: 0.001}
loss: sparse_categorical_crossentropy
recurrent: true
"""
SCRIPT = """
import json, sys
from rnnworker import canonical_weights, frameworks

session = frameworks.open_session(json.loads(sys.argv[1]), 1)
session.load_data(None)
session.build()
session.load_weights(canonical_weights.initial(session.layers(), 0))
kernels = []
for steps in (1, 60):
    session.train_steps(steps)
    kernels.append(session.attest()["found"])
print(json.dumps(kernels))
"""
LOOP = """
import json, sys, tensorflow
from rnnworker.frameworks.tensorflow_facts import executed_ops

@tensorflow.function
def loop(x):
    less = lambda i, x: i < 300
    return tensorflow.while_loop(less, lambda i, x: (i + 1, tensorflow.matmul(x, x)), (0, x))

x = tensorflow.zeros((4, 4))
loop(x)
counts = {}
for _, kind, count in executed_ops(tensorflow, lambda: loop(x)):
    counts[kind.replace("_Mkl", "")] = count
print(json.dumps(counts))
"""


@pytest.mark.parametrize(("build", "version"), [("current", None), ("tf_2_15", "3.11")])
def test_cheap_ops_are_reported(build: str, version: str | None, tmp_path_factory) -> None:
    python = build_python(build, version, tmp_path_factory) if version else Path(sys.executable)
    logging = {"TF_CPP_MIN_LOG_LEVEL": "0", "TF_CPP_VMODULE": "session_manager=1"}
    done = subprocess.run(
        [python, "-c", LOOP],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **logging},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    counts = json.loads(done.stdout.splitlines()[-1])
    assert (counts.get("MatMul"), counts.get("Less")) == (300, 301)
    if build == "current":
        # TensorFlow 2.15 accepts the same option without a message.
        assert "device_tracer_level set to 0" in done.stderr


MASKED = """
def build(keras, recurrent, config):
    inputs = keras.layers.Input(shape=(20, 4))
    hidden = recurrent(16)(keras.layers.Masking()(inputs))
    return keras.models.Model(inputs, keras.layers.Dense(2, activation="softmax")(hidden))
"""
REASONS = """
import json, sys
from rnnworker import canonical_weights, frameworks

session = frameworks.open_session(json.loads(sys.argv[1]), 1)
session.load_data(None)
session.build()
session.load_weights(canonical_weights.initial(session.layers(), 0))
layer = session.recurrent.layers[0]
shapes = [[int(size) for size in shape] for shape in session.layer_shapes(layer)]
print(json.dumps([session.attest(), shapes]))
"""


def output(build: str, model: str, script: str, choices: str, temporary) -> list:
    """The output of `script` for the small `model` in `build`."""
    folder = temporary.mktemp("small")
    (folder / "small.py").write_text(model)
    (folder / "small.yaml").write_text(YAML)
    grid = (f"model={folder}/small.yaml", "dataset=none", f"build={build}", choices)
    experiment = Experiment("small", "", "", (grid,), file=ROOT / "conf/experiment/small.yaml")
    (point,) = expand(experiment, [ROOT / "conf"])
    python = Path(sys.executable)
    if build != "current":
        settings = point.config["build"]
        python = build_python(settings["lock"], settings["python"], temporary)
    return answer(python, script, json.dumps(point.config))


@pytest.mark.parametrize(
    ("build", "kernel"), [("current", "while"), ("tf_2_15", "while"), ("tf_2_21_xla", "xla")]
)
def test_the_kernel_of_a_small_model_is_found(build: str, kernel: str, tmp_path_factory) -> None:
    kernels = output(build, MODEL, SCRIPT, "device=cpu_1", tmp_path_factory)
    assert kernels == [[kernel], [kernel]]


@pytest.mark.parametrize("build", ["current", "tf_2_15", "tf_1_15"])
def test_a_mask_is_not_an_input_but_a_reason_against_cudnn(build: str, tmp_path_factory) -> None:
    masked = MODEL.partition("def build")[0] + MASKED
    kernel, shapes = output(build, masked, REASONS, "rnn=auto", tmp_path_factory)
    assert shapes == [[20, 4], [16]] and kernel["found"] == ["while"]
    assert "the inputs are masked and may not be right-padded" in kernel["why_not_cudnn"]
