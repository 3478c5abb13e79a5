"""The worker in the old TensorFlow builds, with two recurrent layers and dropout."""

from __future__ import annotations

import json
import os
import subprocess

import numpy
import pytest

from tests.conftest import ROOT
from tests.worker.building import build_python

FRAMEWORKS = {
    ("tf_1_2", "3.6"): "keras206_tensorflow1",
    ("tf_1_15", "3.7"): "keras2_tensorflow1",
}
CONFIG = {
    "model": {"function": "rnnworker.models.mnist_rnn:build", "sequence": 28, "units": 4,
              "dropout": [0.2, 0.1, 0.2], "recurrent_dropout": 0.0, "dense": 4, "batch": 8,
              "epochs": 1, "optimizer": {"name": "adam", "learning_rate": 0.001},
              "loss": "sparse_categorical_crossentropy",
              "data": {"prepare": "rnnworker.models.digits_rnn:prepare"}},
    "cell": {"name": "lstm"}, "rnn": {"implementation": "keras", "kernels": ["while"]},
    "device": {"name": "cpu_1", "kind": "cpu", "threads": 1}, "dataset": {"name": "made_up"},
    "seed": 0, "repeat": 0, "measure": {}, "limits": {},
}  # fmt: skip
SCRIPT = """
import json, sys
job = json.loads(sys.argv[1])
sys.path.insert(0, job["source"])
from rnnworker import frameworks
session = frameworks.open_session(job["config"], 1)
session.load_data(job["data"])
session.build()
session.train_steps(1)
shapes = [session.layer_shapes(layer) for layer in session.recurrent.layers]
shapes = [[[int(size) for size in shape] for shape in pair] for pair in shapes]
print("RESULT " + json.dumps({"shapes": shapes, "kernel": session.attest()["found"]}))
"""


@pytest.mark.parametrize(("build", "version"), FRAMEWORKS)
def test_the_kernel_and_the_shapes_of_the_layers_are_found(
    build, version, tmp_path, tmp_path_factory
) -> None:
    python = build_python(build, version, tmp_path_factory)
    stream = numpy.random.RandomState(0)
    data = {f"x_{n}": stream.uniform(size=(16, 28, 28)).astype("f4") for n in ("train", "val")}
    data |= {f"y_{name}": stream.randint(0, 10, 16) for name in ("train", "val")}
    numpy.savez(tmp_path / "d.npz", **data)
    config = {**CONFIG, "build": {"name": build, "framework": FRAMEWORKS[build, version]}}
    job = {"source": str(ROOT / "src"), "data": str(tmp_path / "d.npz"), "config": config}
    done = subprocess.run(
        [python, "-W", "ignore", "-c", SCRIPT, json.dumps(job)],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": ""}, timeout=300,
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert lines, done.stderr[-3000:]
    result = json.loads(lines[0].removeprefix("RESULT "))
    assert result["kernel"] == ["while"]
    assert result["shapes"] == [[[28, 28], [28, 4]], [[28, 4], [4]]]
