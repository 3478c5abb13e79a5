"""The layout of recurrent layers' parameters in cuDNN's opaque buffer.

A buffer holds one or more layers in one or both directions: cuDNN's pseudo-layers, in the order
layer 0 forward, layer 0 backward, layer 1 forward, …; the inputs of a layer above the first are the
outputs of all directions of the one below. The matrices of all pseudo-layers come first, then their
biases. For each pseudo-layer: input matrices, recurrent matrices; input biases, recurrent biases;
each matrix with one row per unit; gates i, f, c, o for LSTM; r, z, h for GRU, whose canonical order
is z, r, h.

Source: NVIDIA's cuDNN documentation, cudnnGetRNNLinLayerMatrixParams; Keras
(keras/src/backend/tensorflow/rnn.py, ``_standardize_cudnn_weights``) for one pseudo-layer; jax
(jax/experimental/rnn.py) and tf.contrib (cudnn_rnn_ops.py, ``CudnnParamsFormatConverter``) for
several.

An LSTM or a simple cell has one bias in canonical form and two here, which cuDNN adds. The whole
bias goes into the input biases; the second set is zero and not trained. If it were trained, both
sets would get the whole gradient of the bias, and their sum would learn twice as fast as Keras's
single bias.
"""

import itertools

import numpy

from rnnworker.canonical_weights import join_layers, split_layers
from rnnworker.recurrent import both_directions

ORDERS = {"lstm": (0, 1, 2, 3), "gru": (1, 0, 2), "rnn_tanh": (0,), "rnn_relu": (0,)}
DIRECTIONS = {1: "unidirectional", 2: "bidirectional"}


def size(cell, inputs, units, layers=1, directions=1):
    """The length of the buffer."""
    biases = 2 * layers * directions * len(ORDERS[cell]) * units
    return _matrices_size(cell, inputs, units, layers, directions) + biases


def trained_size(cell, inputs, units, layers=1, directions=1):
    """The length of the trained part: the whole buffer of a GRU, else without the second biases."""
    biases = _trained_rows(cell) * layers * directions * len(ORDERS[cell]) * units
    return _matrices_size(cell, inputs, units, layers, directions) + biases


def with_untrained(tensorflow, trained, cell, inputs, units, layers=1, directions=1):
    """The whole buffer as a tensor: the variable `trained` with the zeros that are not trained."""
    trained = tensorflow.convert_to_tensor(trained)
    if _trained_rows(cell) == 2:
        return trained
    bias = len(ORDERS[cell]) * units
    matrices = _matrices_size(cell, inputs, units, layers, directions)
    sizes = [matrices + bias] + [bias] * (layers * directions - 1)
    pieces = tensorflow.split(trained, sizes) if len(sizes) > 1 else [trained]
    zeros = tensorflow.zeros([bias], trained.dtype)
    # TensorFlow 1.15 cannot convert a comprehension with two loops.
    return tensorflow.concat(list(itertools.chain(*((piece, zeros) for piece in pieces))), 0)


def pack_trained(cell, arrays):
    """Canonical arrays → the trained part of the buffer."""
    return _packed(cell, arrays, _trained_rows(cell))


def unpack_trained(cell, trained, inputs, units, layers=1, directions=1, gradients=False):
    """The reverse of `pack_trained`, for weights and, with `gradients`, for gradients."""
    trained, shape = numpy.asarray(trained), (layers * directions, _trained_rows(cell), -1)
    start = _matrices_size(cell, inputs, units, layers, directions)
    biases = numpy.zeros((shape[0], 2, len(ORDERS[cell]) * units), trained.dtype)
    biases[:, : shape[1]] = trained[start:].reshape(shape)
    buffer = numpy.concatenate([trained[:start], biases.ravel()])
    return unpack(cell, buffer, inputs, units, layers, directions, gradients=gradients)


def pack(cell, arrays):
    """Canonical arrays → the flat buffer."""
    return _packed(cell, arrays, 2)


def unpack(cell, buffer, inputs, units, layers=1, directions=1, gradients=False):
    """The flat buffer → canonical arrays. If the canonical form has a single bias, it is the sum of
    the two biases, or the first of their `gradients`, which are equal."""
    order = ORDERS[cell]
    columns = len(order) * units
    sizes = [
        columns * rows
        for layer_inputs in _inputs_of(inputs, units, layers, directions)
        for rows in (layer_inputs, units)
    ]
    flat = numpy.split(numpy.asarray(buffer), numpy.cumsum(sizes))
    biases = flat.pop().reshape(-1, 2, columns)
    return nested(
        [
            {
                "kernel": _matrix(kernel, order, units),
                "recurrent": _matrix(recurrent, order, units),
                "bias": _bias(cell, bias, gradients),
            }
            for kernel, recurrent, bias in zip(flat[::2], flat[1::2], biases)
        ],
        directions,
    )


def _trained_rows(cell):
    return 2 if cell == "gru" else 1


def _inputs_of(inputs, units, layers, directions):
    """The size of the inputs of each pseudo-layer."""
    return [inputs] * directions + [directions * units] * (layers - 1) * directions


def _matrices_size(cell, inputs, units, layers, directions):
    columns = len(ORDERS[cell]) * units
    return sum(columns * (rows + units) for rows in _inputs_of(inputs, units, layers, directions))


def pseudo_layers(arrays):
    """The canonical arrays of each pseudo-layer, in cuDNN's order."""
    return [
        part
        for layer in split_layers(arrays)
        for part in (both_directions.split(layer) if "forward_kernel" in layer else [layer])
    ]


def nested(parts, directions):
    """The reverse of `pseudo_layers`."""
    if directions == 2:
        parts = [both_directions.join(*pair) for pair in zip(parts[::2], parts[1::2])]
    return join_layers(*parts) if len(parts) > 1 else parts[0]


def _packed(cell, arrays, rows):
    """Canonical arrays → all matrices, then the first `rows` biases of each pseudo-layer."""
    order, parts = ORDERS[cell], pseudo_layers(arrays)
    flat = [
        numpy.split(part[name], len(order), axis=1)[gate].T.ravel()
        for part in parts
        for name in ("kernel", "recurrent")
        for gate in order
    ]
    for part in parts:
        first = numpy.atleast_2d(part["bias"])
        biases = numpy.concatenate([first, numpy.zeros_like(first)])[:rows]
        flat += [numpy.split(row, len(order))[gate] for row in biases for gate in order]
    return numpy.concatenate(flat)


def _bias(cell, biases, gradients):
    order = ORDERS[cell]
    first, second = (_canonical(numpy.split(row, len(order)), order) for row in biases)
    if cell == "gru":
        return numpy.stack([first, second])
    return first if gradients else first + second


def _matrix(flat, order, units):
    gates = numpy.split(flat, len(order))
    return _canonical([gate.reshape(units, -1).T for gate in gates], order)


def _canonical(parts, order):
    return numpy.concatenate([parts[order.index(gate)] for gate in range(len(order))], axis=-1)
