"""cuDNN's op exists on GPUs only. Here the layout of its buffer is compared with what tf.contrib
says about it, and a layer on it is certified with NVIDIA's equations on such a buffer in place of
the op."""

from __future__ import annotations

import json

import pytest

from tests.worker.building import CERTIFY, answer_of, certificate_job, equal

EQUATIONS = '''
from types import SimpleNamespace
import tensorflow as tf

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


certificates = []
for by_kind, job in json.loads(sys.argv[1]):
    tf.raw_ops.CudnnRNNV2 = cudnn(by_kind)
    certificates.append(certificate(job))
print(json.dumps(certificates))
'''
STACKS = [("lstm", 2, True), ("gru", 1, True), ("rnn_tanh", 2, False), ("rnn_relu", 1, False)]


def test_one_op_on_one_buffer_computes_and_trains_the_stack(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """And fails if cuDNN lays out its buffer in another way."""
    raw = {"cudnn_raw": {"implementation": "cudnn_raw"}}
    both = {"keras": {"implementation": "keras"}, **raw}
    jobs = []
    for cell, layers, bidirectional in STACKS:
        shape = {"sequence": 2, "layers": layers, "bidirectional": bidirectional}
        rnn = both if cell == "lstm" else raw
        jobs.append(certificate_job("keras3_tensorflow", cell, rnn, **shape))
    arguments = json.dumps([*((False, job) for job in jobs), (True, jobs[2])])
    script = CERTIFY + EQUATIONS
    *certificates, other = answer_of("current", script, arguments, temporary=tmp_path_factory)
    for stack, certificate in zip(STACKS, certificates, strict=True):
        for name, entry in certificate["implementations"].items():
            assert (entry["status"], entry["why"], entry["round_trip"]) == ("certified", None, True)
            assert entry["outputs"] <= 1e-5 and entry["gradients"] <= 1e-4, (stack, name)
            assert entry["applied"]["cpu_1"]["off"] == 0, (stack, name)
    assert [equal(pair) for pair in certificates[0]["pairs"]] == [True], "an LSTM of Keras"
    assert other["implementations"]["cudnn_raw"]["outputs"] > 1e-3


CONTRIB = """
import itertools, json
import numpy
from rnnworker.canonical_weights import GATES
from rnnworker.recurrent import cells, cudnn_layout
import tensorflow as tf
from tensorflow.contrib.cudnn_rnn.python.ops import cudnn_rnn_ops
from rnnworker.kernels import contrib, contrib_cudnn

INPUTS, UNITS, STREAM = 3, 4, numpy.random.RandomState(0)
checked = []


def parts_of(cell, layers, both):
    columns = GATES[cell] * UNITS
    bias = (2, columns) if cell == "gru" else (columns,)
    for size in [INPUTS] * both + [both * UNITS] * both * (layers - 1):
        shapes = {"kernel": (size, columns), "recurrent": (UNITS, columns), "bias": bias}
        yield {name: STREAM.normal(size=shapes[name]).astype("f4") for name in shapes}


NAMES = {"lstm": "LSTM", "gru": "GRU", "rnn_tanh": "Tanh", "rnn_relu": "Relu"}
session = tf.Session()


def expected(cell, part):
    # The converter adds the two biases of a GRU's gates.
    name = contrib.LAYOUTS[cell]
    zeros = [numpy.zeros(shape, "f4") for shape in cells.shapes(name, len(part["kernel"]), UNITS)]
    packed = cells.packed(lambda v: cells.unpack(cells.LAYOUTS[name], v, UNITS), zeros, part)
    if cell == "gru":
        packed[1] = packed[1] + packed.pop()
        gates, first, kernel, recurrent, bias, hidden = packed
        return [gates, kernel, recurrent], [first, bias, hidden]
    return packed[:1], packed[1:]


for cell, layers, both in itertools.product(NAMES, (1, 2, 3), (1, 2)):
    parts = list(parts_of(cell, layers, both))
    sizes = INPUTS, UNITS, layers, both
    zeros = [numpy.zeros(cudnn_layout.trained_size(cell, *sizes), "f4")]
    arrays = cudnn_layout.nested(parts, both)
    (trained,) = cells.packed(lambda v: cudnn_layout.unpack(cell, v[0], *sizes), zeros, arrays)
    buffer = session.run(
        cudnn_layout.with_untrained(tf, tf.constant(trained), cell, INPUTS, UNITS, layers, both)
    )
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
        assert all(numpy.allclose(a, b, rtol=0, atol=1e-6) for a, b in zip(ours, theirs))
    checked.append([cell, layers, both])
print(json.dumps(checked))
"""


def test_the_matrices_and_biases_are_in_the_order_of_tf_contribs_converter(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    assert len(answer_of("tf_1_15", CONTRIB, temporary=tmp_path_factory)) == 24
