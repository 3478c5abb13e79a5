"""How cuDNN lays out the parameters of one recurrent layer in its opaque buffer.

Source: NVIDIA's cuDNN documentation, cudnnGetRNNLinLayerMatrixParams, and the same layout in Keras
(keras/src/backend/tensorflow/rnn.py, ``_standardize_cudnn_weights``): all input matrices, all
recurrent matrices, all input biases, all recurrent biases; each matrix with one row per unit; gates
i, f, c, o for LSTM; r, z, h for GRU, where the canonical order is z, r, h. An LSTM or a simple cell
has one bias canonically and two here, which cuDNN adds: all of it is put into the input biases. The
second set of these cells, the buffer's end, is zero and not trained: trained, both sets would get
the bias's whole gradient, and their sum would learn twice as fast as Keras's one bias.
"""

import numpy

ORDERS = {"lstm": (0, 1, 2, 3), "gru": (1, 0, 2), "rnn_tanh": (0,), "rnn_relu": (0,)}


def size(cell, inputs, units):
    """How many numbers the buffer holds."""
    return len(ORDERS[cell]) * units * (inputs + units + 2)


def trained_size(cell, inputs, units):
    """How much of the buffer is trained: all of a GRU's, else without the second bias set."""
    untrained = 0 if cell == "gru" else len(ORDERS[cell]) * units
    return size(cell, inputs, units) - untrained


def with_zeros(tensorflow, trained, cell, inputs, units):
    """The whole buffer as a tensor: the variable `trained`, then what is not trained."""
    trained = tensorflow.convert_to_tensor(trained)
    missing = size(cell, inputs, units) - trained_size(cell, inputs, units)
    return tensorflow.concat([trained, tensorflow.zeros([missing], trained.dtype)], 0)


def pack_trained(cell, arrays):
    """Canonical arrays → the part of the buffer that is trained."""
    inputs, units = arrays["kernel"].shape[0], arrays["recurrent"].shape[0]
    return pack(cell, arrays)[: trained_size(cell, inputs, units)]


def unpack_trained(cell, trained, inputs, units, gradients=False):
    """The reverse of `pack_trained`; gradients travel likewise."""
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
    parts += [numpy.split(one, len(order))[gate] for one in bias for gate in order]
    return numpy.concatenate(parts)


def unpack(cell, buffer, inputs, units, gradients=False):
    """The flat buffer → canonical arrays. Two biases where the canonical form has one are
    added; of their `gradients`, which are equal, the first is taken."""
    order = ORDERS[cell]
    gates = len(order)
    edges = numpy.cumsum([gates * units * inputs, gates * units * units, gates * units])
    kernel, recurrent, first, second = numpy.split(numpy.asarray(buffer), edges)
    first, second = (_canonical(list(numpy.split(one, gates)), order) for one in (first, second))
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
    return _canonical([one.reshape(units, rows).T for one in numpy.split(flat, len(order))], order)


def _canonical(parts, order):
    return numpy.concatenate([parts[order.index(gate)] for gate in range(len(order))], axis=-1)
