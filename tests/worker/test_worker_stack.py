"""Stacks of layers: Keras's and native layers one by one, cuDNN's in one op on one buffer. That op
exists on GPUs only, so here its layout is compared with what jax and tf.contrib say about it, and
the layer is certified with the op replaced by NVIDIA's equations on such a buffer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.worker.building import answer, build_python

MODEL = {
    "function": "rnnworker.models.shape:build",
    "data": {"prepare": "rnnworker.models.shape:prepare"},
    **{"sequence": 3, "features": 3, "units": 4, "recurrent_dropout": 0.0, "batch": 16},
    **{"train_samples": 64, "val_samples": 32, "data_seed": 0, "layers": 2, "bidirectional": True},
    **{"optimizer": {"name": "adam", "learning_rate": 0.01}, "metrics": ["accuracy"]},
    "loss": "sparse_categorical_crossentropy",
}


def config_of(framework: str, cell: str, **model: object) -> dict:
    return {
        "model": {**MODEL, **model},
        "cell": {"name": cell},
        "device": {"kind": "cpu", "threads": 1},
        "build": {"framework": framework},
        "seed": 0,
    }


# Build → Python, framework, cell, implementations that compute a stack on a CPU.
ON_A_CPU = {
    "tf_2_21": (None, "keras3_tensorflow", "lstm", ("keras", "unrolled", "block", "block_cell")),
    "keras3_torch": ("3.11", "keras3_torch", "gru", ("keras", "native")),
    "keras3_jax": ("3.11", "keras3_jax", "lstm", ("keras", "native")),
    "tf_2_15": ("3.11", "keras2_tensorflow2", "gru", ("keras", "cell")),
    "tf_1_15": ("3.7", "keras2_tensorflow1", "lstm", ("keras", "contrib")),
}


@pytest.mark.parametrize("build", ON_A_CPU)
def test_a_stack_is_one_layer_that_every_framework_certifies(
    build: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    version, framework, cell, names = ON_A_CPU[build]
    python = build_python(build, version, tmp_path_factory) if version else sys.executable
    job = {"mode": "certify", "config": config_of(framework, cell), "threads": 1, "dataset": None}
    entries = [{"name": name, "rnn": {"implementation": name}} for name in names]
    job.update(device="cpu_1", implementations=entries)
    (tmp_path / "job.json").write_text(json.dumps(job))
    done = subprocess.run(
        [python, ROOT / "src" / "rnnworker", tmp_path / "job.json"],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": ""}, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    certificate: dict = {}
    for line in done.stdout.splitlines():
        certificate.update(json.loads(line).get("certificate", {}) if line[:1] == "{" else {})
    found = {n: (e["status"], e["why"]) for n, e in certificate["implementations"].items()}
    assert found == dict.fromkeys(names, ("certified", None))
    assert all(pair["equal"] for pair in certificate["pairs"]), certificate["pairs"]
    for entry in certificate["implementations"].values():
        assert entry["applied"]["cpu_1"]["off"] == 0


CUDNN = '''
import json, os, sys
os.environ.update(KERAS_BACKEND="tensorflow", TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1")
from types import SimpleNamespace
import tensorflow as tf
from rnnworker import certify, frameworks
from rnnworker.phases import Phases
from rnnworker.turns import Turns

GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
SIGMOID, TANH = tf.sigmoid, tf.tanh


def step(mode, x, h, c, w, r, b_w, b_r):
    """NVIDIA's equations (cudnnRNNMode_t); LSTM i, f, c, o; GRU r, i, h."""
    p = [x @ tf.transpose(matrix) + bias for matrix, bias in zip(w, b_w)]
    q = [h @ tf.transpose(matrix) + bias for matrix, bias in zip(r, b_r)]
    if mode == "lstm":
        i, f, new, o = (f(a + b) for f, a, b in zip((SIGMOID, SIGMOID, TANH, SIGMOID), p, q))
        c = f * c + i * new
        return o * TANH(c), c
    if mode == "gru":
        reset, update = (SIGMOID(p[gate] + q[gate]) for gate in (0, 1))
        return (1 - update) * TANH(p[2] + reset * q[2]) + update * h, c
    return (TANH if mode == "rnn_tanh" else tf.nn.relu)(p[0] + q[0]), c


def cudnn(by_kind):
    """An op like CudnnRNNV2. With `by_kind` its buffer has all input matrices first."""

    def op(rnn_mode, input, input_h, params, direction, is_training, **_):
        both = 2 if direction == "bidirectional" else 1
        count, units, gates = input_h.shape[0], input_h.shape[2], GATES[rnn_mode]
        sizes = [input.shape[2] if n < both else both * units for n in range(count)]
        position = 0

        def take(*shape):
            nonlocal position
            size = gates * int(tf.TensorShape(shape).num_elements())
            position += size
            return tf.unstack(tf.reshape(params[position - size : position], [gates, *shape]))

        if by_kind:
            w = [take(units, size) for size in sizes]
            r = [take(units, units) for _ in sizes]
            matrices = list(zip(w, r))
        else:
            matrices = [(take(units, size), take(units, units)) for size in sizes]
        biases = [(take(units), take(units)) for _ in sizes]
        assert position == params.shape[0], "the buffer has another size"
        sequence = tf.unstack(input)
        for layer in range(count // both):
            outputs = []
            for number in range(layer * both, (layer + 1) * both):
                backwards = number % both
                h = c = input_h[number]
                states = []
                for x in reversed(sequence) if backwards else sequence:
                    h, c = step(rnn_mode, x, h, c, *matrices[number], *biases[number])
                    states.append(h)
                outputs.append(states[::-1] if backwards else states)
            sequence = [tf.concat(parts, -1) for parts in zip(*outputs)]
        return SimpleNamespace(output=tf.stack(sequence))

    return op


class Events:
    def __init__(self):
        self.certificate = {}

    def emit(self, event, **fields):
        if event == "facts":
            self.certificate.update(fields["certificate"])

    def handshake(self):
        pass


entries = [{"name": name, "rnn": {"implementation": name}} for name in ("keras", "cudnn_raw")]
certificates = []
for config, by_kind in json.loads(sys.argv[1]):
    tf.raw_ops.CudnnRNNV2 = cudnn(by_kind)
    events, job = Events(), {"config": config, "implementations": entries, "threads": 1}
    job.update(dataset=None, device="cpu_1")
    certify.certify(job, events, Phases(events, Turns(events)))
    session = frameworks.open_session(dict(config, rnn=entries[1]["rnn"]), 1)
    session.load_data(None)
    session.build()
    names = [variable.name for variable in session.recurrent.layers[0].trainable_variables]
    layer = {"variables": names, "layers": len(session.recurrent.layers)}
    certificates.append(dict(events.certificate, layer=layer))
print(json.dumps(certificates))
'''
STACKS = [("lstm", 2, True), ("gru", 2, True), ("rnn_tanh", 3, False), ("rnn_relu", 1, True)]


@pytest.fixture(scope="module")
def certificates() -> list[dict]:
    """The certificates of `STACKS`, and one with another layout of the buffer."""
    jobs = [
        (config_of("keras3_tensorflow", cell, layers=layers, bidirectional=both), False)
        for cell, layers, both in STACKS
    ]
    return answer(sys.executable, CUDNN, json.dumps([*jobs, (jobs[2][0], True)]), timeout=600)


@pytest.mark.parametrize("index", range(len(STACKS)), ids=str)
def test_one_op_on_one_buffer_computes_and_trains_the_stack(
    certificates: list[dict], index: int
) -> None:
    certificate = certificates[index]
    assert certificate["layer"] == {"variables": ["opaque_kernel"], "layers": 1}
    for name, entry in certificate["implementations"].items():
        assert (entry["status"], entry["why"], entry["round_trip"]) == ("certified", None, True)
        assert entry["applied"]["cpu_1"]["off"] == 0, name
    (pair,) = certificate["pairs"]
    assert pair["equal"], pair


def test_a_certificate_fails_if_cudnn_lays_out_its_buffer_in_another_way(
    certificates: list[dict],
) -> None:
    entry = certificates[-1]["implementations"]["cudnn_raw"]
    assert "outputs differ from the float64 reference" in entry["probed"]["cpu_1"]["wrong"]
    assert not certificates[-1]["pairs"][0]["equal"]


JAX = """
import itertools, json
import numpy
from jax.experimental.rnn import unpack_lstm_weights
from rnnworker.recurrent import cudnn_layout

INPUTS, UNITS, STREAM = 3, 4, numpy.random.RandomState(0)
checked = []
for layers, both in itertools.product((1, 2, 3), (1, 2)):
    sizes = [INPUTS] * both + [both * UNITS] * both * (layers - 1)
    parts = [
        {
            "kernel": STREAM.normal(size=(size, 4 * UNITS)).astype("float32"),
            "recurrent": STREAM.normal(size=(UNITS, 4 * UNITS)).astype("float32"),
            "bias": STREAM.normal(size=4 * UNITS).astype("float32"),
        }
        for size in sizes
    ]
    buffer = cudnn_layout.pack("lstm", cudnn_layout.nested(parts, both))
    w, r, b_w, b_r = unpack_lstm_weights(buffer, INPUTS, UNITS, layers, both == 2)
    assert len(w) == len(parts) == layers * both
    total = 0
    for number, part in enumerate(parts):
        assert numpy.array_equal(w[number], part["kernel"].T)
        assert numpy.array_equal(r[number], part["recurrent"].T)
        assert numpy.array_equal(b_w[number], part["bias"])
        assert not numpy.any(b_r[number])
        total += sum(each[number].size for each in (w, r, b_w, b_r))
    assert total == len(buffer) == cudnn_layout.size("lstm", INPUTS, UNITS, layers, both)
    checked.append([layers, both])
print(json.dumps(checked))
"""


def test_the_buffer_of_an_lstm_is_as_jax_unpacks_it(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    python = build_python("keras3_jax", "3.11", tmp_path_factory)
    assert len(answer(python, JAX)) == 6


CONTRIB = """
import itertools, json, os
os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1")
import numpy
import tensorflow as tf
from tensorflow.contrib.cudnn_rnn.python.ops import cudnn_rnn_ops
from rnnworker.canonical_weights import GATES
from rnnworker.recurrent import contrib, contrib_cudnn, cudnn_layout

INPUTS, UNITS, STREAM = 3, 4, numpy.random.RandomState(0)
NAMES = {"lstm": "LSTM", "gru": "GRU", "rnn_tanh": "Tanh", "rnn_relu": "Relu"}
session, checked = tf.Session(), []


def parts_of(cell, layers, both):
    columns = GATES[cell] * UNITS
    for size in [INPUTS] * both + [both * UNITS] * both * (layers - 1):
        yield {
            "kernel": STREAM.normal(size=(size, columns)),
            "recurrent": STREAM.normal(size=(UNITS, columns)),
            "bias": STREAM.normal(size=(2, columns) if cell == "gru" else columns),
        }


def expected(cell, part):
    # The converter adds the two biases of a GRU's gates.
    packed = contrib.pack(cell, part)
    if cell == "gru":
        packed[1] = packed[1] + packed.pop()
        gates, first, kernel, recurrent, bias, hidden = packed
        return [gates, kernel, recurrent], [first, bias, hidden]
    return packed[:1], packed[1:]


for cell, layers, both in itertools.product(NAMES, (1, 2, 3), (1, 2)):
    parts = list(parts_of(cell, layers, both))
    buffer = cudnn_layout.pack(cell, cudnn_layout.nested(parts, both))
    direction = cudnn_layout.DIRECTIONS[both]
    layer = getattr(tf.contrib.cudnn_rnn, contrib_cudnn.CLASSES[cell])(
        layers, UNITS, direction=direction
    )
    layer._input_size = INPUTS
    tensors, position = [], 0
    for shape in [*layer.canonical_weight_shapes, *layer.canonical_bias_shapes]:
        size = int(numpy.prod(shape))
        tensors.append(tf.constant(buffer[position : position + size].reshape(shape)))
        position += size
    assert position == len(buffer)
    matrices = len(layer.canonical_weight_shapes)
    make = getattr(cudnn_rnn_ops, "CudnnParamsFormatConverter" + NAMES[cell])
    converter = make(layers, UNITS, INPUTS, direction=direction)
    # Of the biases this order alone says something, of the matrices also the shapes.
    found = session.run(
        converter._cu_canonical_to_tf_canonical(tensors[:matrices], tensors[matrices:])
    )
    wanted = [[a for pair in map(expected, [cell] * len(parts), parts) for a in pair[i]]
              for i in (0, 1)]
    for ours, theirs in zip(wanted, found):
        assert len(ours) == len(theirs)
        assert all(numpy.allclose(a, b, rtol=0, atol=1e-15) for a, b in zip(ours, theirs))
    checked.append([cell, layers, both])
print(json.dumps(checked))
"""


def test_the_matrices_and_biases_are_in_the_order_of_tf_contribs_converter(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    python = build_python("tf_1_15", "3.7", tmp_path_factory)
    assert len(answer(python, CONTRIB)) == 24
