"""tf.contrib's classes: the layout of their weights and, in TensorFlow 1.15, their equality with
the cells that they implement."""

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
def test_the_round_trip_of_weights_is_exact(cell: str) -> None:
    original = arrays(cell)
    unpacked = contrib.unpack(cell, contrib.pack(cell, original), 4)
    assert set(unpacked) == set(original)
    for name, array in original.items():
        assert numpy.array_equal(unpacked[name], array), name


def test_an_lstms_gates_are_in_contribs_order() -> None:
    canonical = arrays("lstm")
    canonical["bias"] = numpy.repeat([0.0, 1.0, 2.0, 3.0], 4)  # i, f, c, o
    _, bias = contrib.pack("lstm", canonical)
    assert bias[::4].tolist() == [0.0, 2.0, 1.0, 3.0]


def test_a_class_belongs_to_its_cell() -> None:
    assert contrib.class_name("lstm", None) == "LSTMBlockFusedCell"
    assert contrib.class_name("gru_reset_before", "GRUCell") == "GRUCell"
    message = "'GRUCell' must be one of CudnnCompatibleGRUCell for gru"
    with pytest.raises(ValueError, match=message):
        contrib.class_name("gru", "GRUCell")


def test_every_class_and_cell_has_a_kernel() -> None:
    classes = {name for names in contrib.CLASSES.values() for name in names}
    assert set(KERNELS) == classes | set(contrib.CLASSES)
    for cell, names in contrib.CLASSES.items():
        assert KERNELS[cell] == KERNELS[names[0]]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of TensorFlow 1.15, from this checkout or made from the lock."""
    return build_python("tf_1_15", "3.7", tmp_path_factory)


@pytest.fixture(scope="module")
def certificates(python: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict]:
    """Cell → certificate of ``keras`` and every class, on synthetic digits."""
    folder = tmp_path_factory.mktemp("contrib")
    x = STREAM.uniform(size=(96, 8, 8)).astype("float32")
    y = STREAM.randint(0, 10, 96)
    numpy.savez(folder / "d.npz", x_train=x[:64], y_train=y[:64], x_val=x[64:], y_val=y[64:])
    config = json.loads((ROOT / "tests" / "builds" / "tf_1_15.json").read_text())
    result = {}
    for cell in CELLS:
        entries = [{"name": "keras", "rnn": {"implementation": "keras", "kernels": ["while"]}}]
        for name in contrib.CLASSES[cell]:
            rnn = {"implementation": "contrib", "options": {"class": name}, "kernels": KERNELS}
            entries.append({"name": name, "rnn": rnn})
        job = {"mode": "certify", "config": {**config, "cell": {"name": cell}}, "threads": 1}
        job.update(device="cpu_1", implementations=entries, dataset=str(folder / "d.npz"))
        (folder / "job.json").write_text(json.dumps(job))
        result[cell] = {}
        for event in run_worker(python, folder / "job.json"):
            result[cell].update(event.get("certificate", {}))
    return result


def run_worker(python: Path, job: Path) -> list[dict]:
    done = subprocess.run(
        [python, ROOT / "src" / "rnnworker", job],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": ""},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.mark.parametrize("cell", CELLS)
def test_contribs_classes_compute_the_cells_of_the_reference(certificates: dict, cell: str) -> None:
    certificate = certificates[cell]
    assert set(certificate["implementations"]) == {"keras", *contrib.CLASSES[cell]}
    for name, entry in certificate["implementations"].items():
        assert (entry["status"], entry["why"]) == ("certified", None), name
        assert entry["kernel"] == (["while"] if name == "keras" else KERNELS[name])
    assert all(pair["equal"] for pair in certificate["pairs"]), certificate["pairs"]


GRAPH = """
import json, os, sys
os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1")
sys.path.insert(0, sys.argv[1])
import tensorflow as tf
from rnnworker.recurrent import Recurrent

graphs = {}
for name, cell in json.loads(sys.argv[2]):
    with tf.Graph().as_default() as graph:
        rnn = {"implementation": name}
        inputs = tf.keras.layers.Input((7, 3))
        recurrent = Recurrent(tf.keras, {"cell": {"name": cell}, "rnn": rnn})
        layer = recurrent.stack(4, layers=int(sys.argv[3]), bidirectional=True)
        model = tf.keras.models.Model(inputs, layer(inputs))
        model.compile("adam", "mse")
        model._make_train_function()
        ops = [op for op in graph.get_operations() if op.type.startswith("Cudnn")]
        modes = {op.get_attr("rnn_mode").decode() for op in ops}
        variables = model.trainable_weights
        unused = [g is None for g in tf.gradients(model.output, variables)]
        sizes = [v.shape.num_elements() for v in variables]
        graphs[cell] = [sorted({op.type for op in ops}), sorted(modes), model.count_params()]
        graphs[cell] += [sum(sizes), any(unused), list(map(len, (ops, variables)))]
        graphs[cell] += [model.output.shape.as_list()]
print(json.dumps(graphs))
"""


@pytest.mark.parametrize(
    ("name", "cells", "op", "layers", "counts"),
    [
        ("contrib_cudnn", ("lstm", "gru", "rnn_tanh", "rnn_relu"), "CudnnRNN", 1, [2, 1]),
        ("contrib_cudnn", ("lstm", "gru"), "CudnnRNN", 2, [2, 1]),
        ("legacy_cudnn", ("lstm", "gru"), "CudnnRNNV2", 1, [4, 6]),
    ],
)
def test_cudnn_layers_train_as_many_biases_as_keras(
    python: Path, name: str, cells: tuple[str, ...], op: str, layers: int, counts: list[int]
) -> None:
    """`counts`: ops (forward and backward), and variables."""
    pairs = json.dumps([[name, cell] for cell in cells])
    graphs = answer(python, GRAPH, ROOT / "src", pairs, layers)
    assert set(graphs) == set(cells)
    for cell, (ops, modes, parameters, trained, unused, found, output) in graphs.items():
        assert ops == sorted([op, op.replace("CudnnRNN", "CudnnRNNBackprop")]), cell
        assert modes == [cell]
        biases = 2 if cell == "gru" else 1
        above = (layers - 1) * (8 + 4 + biases)
        assert parameters == trained == 2 * GATES[cell] * 4 * (3 + 4 + biases + above)
        assert not unused
        assert (found, output) == (counts, [None, 8])
