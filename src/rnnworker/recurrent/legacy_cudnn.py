"""Keras 2's ``CuDNNLSTM`` and ``CuDNNGRU`` layers. GPU only.

Source of the weights' form: Keras 2's converter (``preprocess_weights_for_loading``, 2.2 to 2.x):
input matrices are kept such that their rows, read in order, are cuDNN's; recurrent matrices are
transposed gate by gate; biases lie in one row, the input's before the state's; the LSTM's one bias
is split into halves. Both halves are trained, so an LSTM's biases learn twice as fast as Keras's
own LSTM's: its loss curve parts from theirs after the first step.
"""

import numpy

from rnnworker.recurrent.cells import WITH_CUDNN, refuse

LAYERS = {"lstm": "CuDNNLSTM", "gru": "CuDNNGRU"}
GATES = {"CuDNNLSTM": 4, "CuDNNGRU": 3}


def make(keras, cell, units, options):
    refuse("a CuDNN layer", cell, WITH_CUDNN, options)
    options = {n: v for n, v in options.items() if n not in ("dropout", "recurrent_dropout")}
    return _class(keras, LAYERS[cell])(units, **options)


def to_canonical(layer):
    return unpack(type(layer).__name__, layer.get_weights())


def gradients_to_canonical(layer, values):
    return unpack(type(layer).__name__, values, gradients=True)


def from_canonical(layer, arrays):
    layer.set_weights(pack(type(layer).__name__, arrays))


def pack(name, arrays):
    """Canonical arrays → [kernel, recurrent, bias] of the layer class `name`."""
    gates = GATES[name]
    bias = arrays["bias"]
    bias = numpy.tile(0.5 * bias, 2) if bias.ndim == 1 else bias.ravel()
    return [
        _each(arrays["kernel"], gates, lambda one: one.T.reshape(one.shape)),
        _each(arrays["recurrent"], gates, lambda one: one.T),
        bias.astype(arrays["kernel"].dtype),
    ]


def unpack(name, values, gradients=False):
    """[kernel, recurrent, bias] of the layer class `name` → canonical arrays. The two halves of
    an LSTM's bias are added; their `gradients` are equal, and the first is taken."""
    gates = GATES[name]
    kernel, recurrent, bias = values
    halves = numpy.reshape(bias, (2, -1))
    if name == "CuDNNLSTM":
        halves = halves[0] if gradients else halves[0] + halves[1]
    return {
        "kernel": _each(kernel, gates, lambda one: one.reshape(one.shape[::-1]).T),
        "recurrent": _each(recurrent, gates, lambda one: one.T),
        "bias": halves,
    }


def _each(matrix, gates, change):
    return numpy.concatenate([change(one) for one in numpy.split(matrix, gates, axis=1)], axis=1)


def _class(keras, name):
    """Where this Keras keeps the class: among its layers, or among those of version 1."""
    if hasattr(keras.layers, name):
        return getattr(keras.layers, name)
    if not keras.__version__.startswith("2."):
        raise ValueError("Keras {} has no {}".format(keras.__version__, name))
    import tensorflow

    layers = tensorflow.compat.v1.keras.layers
    if not hasattr(layers, name):
        raise ValueError("this build's Keras has no {}".format(name))
    return getattr(layers, name)
