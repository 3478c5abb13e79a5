"""What a small model ran is seen, however many steps it has trained before: TensorFlow counts its
ops as cheap by then, and on a GPU from the beginning, and tells of them at the profiler's level 3
only."""

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
about: a small one
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
found = []
for steps in (1, 60):
    session.train_steps(steps)
    found.append(session.attest()["found"])
print(json.dumps(found))
"""
LOOP = """
import json, sys, tensorflow
from rnnworker.frameworks.tensorflow_profile import executed_ops

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
def test_cheap_ops_are_told_of(build: str, version: str | None, tmp_path_factory) -> None:
    python = build_python(build, version, tmp_path_factory) if version else Path(sys.executable)
    told = {"TF_CPP_MIN_LOG_LEVEL": "0", "TF_CPP_VMODULE": "session_manager=1"}
    done = subprocess.run(
        [python, "-c", LOOP],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **told},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    counts = json.loads(done.stdout.splitlines()[-1])
    assert (counts.get("MatMul"), counts.get("Less")) == (300, 301)
    if build == "current":
        # TensorFlow 2.15 takes the same option without a word.
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
shapes = [[int(size) for size in one] for one in session.layer_shapes(session.recurrent.layers[0])]
print(json.dumps([session.attest(), shapes]))
"""


def said(build: str, model: str, script: str, choices: str, temporary) -> list:
    """What `script` prints of the small `model` in `build`."""
    folder = temporary.mktemp("small")
    (folder / "small.py").write_text(model)
    (folder / "small.yaml").write_text(YAML)
    grid = (f"model={folder}/small.yaml", "dataset=none", f"build={build}", choices)
    experiment = Experiment("small", "", "", (grid,), file=ROOT / "conf/experiment/small.yaml")
    (cell,) = expand(experiment, [ROOT / "conf"])
    python = Path(sys.executable)
    if build != "current":
        stated = cell.config["build"]
        python = build_python(stated["lock"], stated["python"], temporary)
    return answer(python, script, json.dumps(cell.config))


@pytest.mark.parametrize(
    ("build", "kernel"), [("current", "while"), ("tf_2_15", "while"), ("tf_2_21_xla", "xla")]
)
def test_a_small_models_kernel_is_seen(build: str, kernel: str, tmp_path_factory) -> None:
    found = said(build, MODEL, SCRIPT, "device=cpu_1", tmp_path_factory)
    assert found == [[kernel], [kernel]]


@pytest.mark.parametrize("build", ["current", "tf_2_15", "tf_1_15"])
def test_a_mask_is_no_input_and_is_a_reason_against_cudnn(build: str, tmp_path_factory) -> None:
    masked = MODEL.partition("def build")[0] + MASKED
    kernel, shapes = said(build, masked, REASONS, "rnn=auto", tmp_path_factory)
    assert shapes == [[20, 4], [16]] and kernel["found"] == ["while"]
    assert "the inputs are masked and may not be right-padded" in kernel["why_not_cudnn"]
