"""tf.contrib's own classes: their weights' layout, and in TensorFlow 1.15 that they are the cells
they are taken for."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy
import pytest
import yaml

from rnnworker.canonical_weights import GATES
from rnnworker.recurrent import contrib
from tests.conftest import ROOT
from tests.worker.building import answer, build_python

STREAM = numpy.random.RandomState(0)
KERNELS = yaml.safe_load((ROOT / "conf" / "rnn" / "contrib.yaml").read_text())["kernels"]
CELLS = ("lstm", "gru", "gru_reset_before", "rnn_relu")


def arrays(cell: str, inputs: int = 5, units: int = 4) -> dict[str, numpy.ndarray]:
    columns = GATES[cell] * units
    shapes = {"kernel": (inputs, columns), "recurrent": (units, columns)}
    shapes["bias"] = (2, columns) if cell == "gru" else (columns,)
    return {name: STREAM.normal(size=shape) for name, shape in shapes.items()}


@pytest.mark.parametrize("cell", contrib.CLASSES)
def test_weights_come_back_bit_by_bit(cell: str) -> None:
    given = arrays(cell)
    back = contrib.unpack(cell, contrib.pack(cell, given), 4)
    assert set(back) == set(given)
    for name, array in given.items():
        assert numpy.array_equal(back[name], array), name


def test_an_lstms_gates_are_in_contribs_order() -> None:
    given = arrays("lstm")
    given["bias"] = numpy.repeat([0.0, 1.0, 2.0, 3.0], 4)  # i, f, c, o
    _, bias = contrib.pack("lstm", given)
    assert bias[::4].tolist() == [0.0, 2.0, 1.0, 3.0]


def test_a_class_belongs_to_its_cell() -> None:
    assert contrib.class_name("lstm", None) == "LSTMBlockFusedCell"
    assert contrib.class_name("gru_reset_before", "GRUCell") == "GRUCell"
    with pytest.raises(ValueError, match="'GRUCell' is none of CudnnCompatibleGRUCell for gru"):
        contrib.class_name("gru", "GRUCell")


def test_every_class_and_cell_has_its_kernel() -> None:
    classes = {name for names in contrib.CLASSES.values() for name in names}
    assert set(KERNELS) == classes | set(contrib.CLASSES)
    for cell, names in contrib.CLASSES.items():
        assert KERNELS[cell] == KERNELS[names[0]]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of TensorFlow 1.15: this checkout's, or one made from the lock."""
    return build_python("tf_1_15", "3.7", tmp_path_factory)


@pytest.fixture(scope="module")
def certificates(python: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict]:
    """Cell → its certificate of ``keras`` and every class, on made-up digits."""
    folder = tmp_path_factory.mktemp("contrib")
    x = STREAM.uniform(size=(96, 8, 8)).astype("float32")
    y = STREAM.randint(0, 10, 96)
    numpy.savez(folder / "d.npz", x_train=x[:64], y_train=y[:64], x_val=x[64:], y_val=y[64:])
    config = json.loads((ROOT / "tests" / "builds" / "tf_1_15.json").read_text())
    found = {}
    for cell in CELLS:
        entries = [{"name": "keras", "rnn": {"implementation": "keras", "kernels": ["while"]}}]
        for name in contrib.CLASSES[cell]:
            rnn = {"implementation": "contrib", "options": {"class": name}, "kernels": KERNELS}
            entries.append({"name": name, "rnn": rnn})
        job = {"mode": "certify", "config": {**config, "cell": {"name": cell}}, "threads": 1}
        job.update(device="cpu_1", implementations=entries, dataset=str(folder / "d.npz"))
        (folder / "job.json").write_text(json.dumps(job))
        events = worker(python, folder / "job.json")
        found[cell] = {}
        for event in events:
            found[cell].update(event.get("certificate", {}))
    return found


def worker(python: Path, job: Path) -> list[dict]:
    answer = subprocess.run(
        [python, ROOT / "src" / "rnnworker", job],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": ""},
        timeout=300,
    )
    assert answer.returncode == 0, answer.stderr[-2000:]
    return [json.loads(line) for line in answer.stdout.splitlines() if line.startswith("{")]


@pytest.mark.parametrize("cell", CELLS)
def test_contribs_classes_are_the_cells_they_are_taken_for(certificates: dict, cell: str) -> None:
    one = certificates[cell]
    assert set(one["implementations"]) == {"keras", *contrib.CLASSES[cell]}
    for name, found in one["implementations"].items():
        assert (found["status"], found["why"]) == ("certified", None), name
        assert found["kernel"] == (["while"] if name == "keras" else KERNELS[name])
    assert all(pair["equal"] for pair in one["pairs"]), one["pairs"]


GRAPH = """
import json, os, sys
os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1")
sys.path.insert(0, sys.argv[1])
import tensorflow as tf
from rnnworker.recurrent import Recurrent

found = {}
for name, cell in json.loads(sys.argv[2]):
    with tf.Graph().as_default() as graph:
        rnn = {"implementation": name}
        inputs = tf.keras.layers.Input((7, 3))
        made = Recurrent(tf.keras, {"cell": {"name": cell}, "rnn": rnn})
        model = tf.keras.models.Model(inputs, made.bidirectional(4)(inputs))
        model.compile("adam", "mse")
        model._make_train_function()
        ops = [op for op in graph.get_operations() if op.type.startswith("Cudnn")]
        modes = {op.get_attr("rnn_mode").decode() for op in ops}
        variables = model.trainable_weights
        unused = [g is None for g in tf.gradients(model.output, variables)]
        sizes = [v.shape.num_elements() for v in variables]
        found[cell] = [sorted({op.type for op in ops}), sorted(modes), model.count_params()]
        found[cell] += [sum(sizes), any(unused)]
print(json.dumps(found))
"""


@pytest.mark.parametrize(
    ("name", "cells", "op"),
    [
        ("contrib_cudnn", ("lstm", "gru", "rnn_tanh", "rnn_relu"), "CudnnRNN"),
        ("legacy_cudnn", ("lstm", "gru"), "CudnnRNNV2"),
    ],
)
def test_the_cudnn_classes_graph_trains_as_many_biases_as_keras(
    python: Path, name: str, cells: tuple[str, ...], op: str
) -> None:
    asked = json.dumps([[name, cell] for cell in cells])
    found = answer(python, GRAPH, ROOT / "src", asked)
    assert set(found) == set(cells)
    for cell, (ops, modes, parameters, trained, unused) in found.items():
        assert ops == sorted([op, op.replace("CudnnRNN", "CudnnRNNBackprop")]), cell
        assert modes == [cell]
        biases = 2 if cell == "gru" else 1
        assert parameters == trained == 2 * GATES[cell] * 4 * (3 + 4 + biases)
        assert not unused
