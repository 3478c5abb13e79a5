"""The layout of the parameters of one recurrent layer in cuDNN's opaque buffer.

Source: NVIDIA's cuDNN documentation, cudnnGetRNNLinLayerMatrixParams, and the same layout in Keras
(keras/src/backend/tensorflow/rnn.py, ``_standardize_cudnn_weights``): all input matrices, all
recurrent matrices, all input biases, all recurrent biases; each matrix with one row per unit; gates
i, f, c, o for LSTM; r, z, h for GRU, whose canonical order is z, r, h.

An LSTM or a simple cell has one bias in canonical form and two here, which cuDNN adds. The whole
bias goes into the input biases; the second set, the end of the buffer, is zero and not trained. If
it were trained, both sets would get the whole gradient of the bias, and their sum would learn twice
as fast as Keras's single bias.
"""

import numpy

ORDERS = {"lstm": (0, 1, 2, 3), "gru": (1, 0, 2), "rnn_tanh": (0,), "rnn_relu": (0,)}


def size(cell, inputs, units):
    """The length of the buffer."""
    return len(ORDERS[cell]) * units * (inputs + units + 2)


def trained_size(cell, inputs, units):
    """The length of the trained part: the whole buffer of a GRU, else without the second biases."""
    untrained = 0 if cell == "gru" else len(ORDERS[cell]) * units
    return size(cell, inputs, units) - untrained


def append_untrained(tensorflow, trained, cell, inputs, units):
    """The whole buffer as a tensor: the variable `trained`, then the zeros that are not trained."""
    trained = tensorflow.convert_to_tensor(trained)
    missing = size(cell, inputs, units) - trained_size(cell, inputs, units)
    return tensorflow.concat([trained, tensorflow.zeros([missing], trained.dtype)], 0)


def pack_trained(cell, arrays):
    """Canonical arrays → the trained part of the buffer."""
    inputs, units = arrays["kernel"].shape[0], arrays["recurrent"].shape[0]
    return pack(cell, arrays)[: trained_size(cell, inputs, units)]


def unpack_trained(cell, trained, inputs, units, gradients=False):
    """The reverse of `pack_trained`, for weights and, with `gradients`, for gradients."""
    missing = size(cell, inputs, units) - len(trained)
    buffer = numpy.concatenate([trained, numpy.zeros(missing, trained.dtype)])
    return unpack(cell, buffer, inputs, units, gradients=gradients)


def pack(cell, arrays):
    """Canonical arrays → the flat buffer."""
    order = ORDERS[cell]
    bias = arrays["bias"]
    if bias.ndim == 1:
        bias = numpy.stack([bias, numpy.zeros_like(bias)])
    parts = [
        numpy.split(matrix, len(order), axis=1)[gate].T.ravel()
        for matrix in (arrays["kernel"], arrays["recurrent"])
        for gate in order
    ]
    parts += [numpy.split(row, len(order))[gate] for row in bias for gate in order]
    return numpy.concatenate(parts)


def unpack(cell, buffer, inputs, units, gradients=False):
    """The flat buffer → canonical arrays. If the canonical form has a single bias, it is the sum of
    the two biases, or the first of their `gradients`, which are equal."""
    order = ORDERS[cell]
    gates = len(order)
    edges = numpy.cumsum([gates * units * inputs, gates * units * units, gates * units])
    kernel, recurrent, first, second = numpy.split(numpy.asarray(buffer), edges)
    first, second = (_canonical(list(numpy.split(row, gates)), order) for row in (first, second))
    if cell == "gru":
        bias = numpy.stack([first, second])
    else:
        bias = first if gradients else first + second
    return {
        "kernel": _matrix(kernel, order, inputs, units),
        "recurrent": _matrix(recurrent, order, units, units),
        "bias": bias,
    }


def _matrix(flat, order, rows, units):
    gates = numpy.split(flat, len(order))
    return _canonical([gate.reshape(units, rows).T for gate in gates], order)


def _canonical(parts, order):
    return numpy.concatenate([parts[order.index(gate)] for gate in range(len(order))], axis=-1)
