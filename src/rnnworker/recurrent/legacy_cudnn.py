"""Keras 2's ``CuDNNLSTM`` and ``CuDNNGRU`` layers. GPU only.

Source of the weights' form: Keras 2's converter (``preprocess_weights_for_loading``, 2.2 to 2.x):
input matrices are kept such that their rows, read in order, are cuDNN's; recurrent matrices are
transposed gate by gate; biases lie in one row, the input's before the state's.

Keras trains both halves of an LSTM's row, so that their sum learns twice as fast as its own LSTM's
one bias and the loss curve parts from that one's after the first step. Here the state's half is
zero and not trained. Both halves of a GRU are trained, in Keras's own GRU too.
"""

import numpy

from rnnworker.frameworks.tensorflow_facts import keras_version
from rnnworker.recurrent.cells import WITH_CUDNN, refuse

LAYERS = {"lstm": "CuDNNLSTM", "gru": "CuDNNGRU"}
GATES = {"CuDNNLSTM": 4, "CuDNNGRU": 3}


def make(keras, cell, units, options):
    refuse("a CuDNN layer", cell, WITH_CUDNN, options)
    options = {n: v for n, v in options.items() if n not in ("dropout", "recurrent_dropout")}
    made = _class(keras, LAYERS[cell])
    if cell == "lstm":
        return _with_one_bias(made)(units, unit_forget_bias=False, **options)
    return made(units, **options)


def to_canonical(layer, values=None):
    return unpack(type(layer).__name__, layer.get_weights() if values is None else values)


def from_canonical(layer, arrays):
    layer.set_weights(pack(type(layer).__name__, arrays))


def pack(name, arrays):
    """Canonical arrays → what is trained of the layer class `name`: [kernel, recurrent, bias]."""
    gates = GATES[name]
    return [
        _each(arrays["kernel"], gates, lambda one: one.T.reshape(one.shape)),
        _each(arrays["recurrent"], gates, lambda one: one.T),
        arrays["bias"].ravel(),
    ]


def unpack(name, values):
    """The reverse of `pack`; gradients travel as weights do."""
    gates = GATES[name]
    kernel, recurrent, bias = values
    return {
        "kernel": _each(kernel, gates, lambda one: one.reshape(one.shape[::-1]).T),
        "recurrent": _each(recurrent, gates, lambda one: one.T),
        "bias": bias if name == "CuDNNLSTM" else numpy.reshape(bias, (2, -1)),
    }


def _each(matrix, gates, change):
    return numpy.concatenate([change(one) for one in numpy.split(matrix, gates, axis=1)], axis=1)


def _with_one_bias(layer_class):
    """`layer_class` (CuDNNLSTM), of whose row of biases the first half is trained alone."""

    class CuDNNLSTM(layer_class):
        def add_weight(self, *arguments, **settings):
            if settings.get("name") == "bias":
                settings["shape"] = (4 * self.units,)
            return super().add_weight(*arguments, **settings)

        calling = False

        def _process_batch(self, inputs, initial_state):
            self.calling = True
            try:
                return super()._process_batch(inputs, initial_state)
            finally:
                self.calling = False

        @property
        def bias(self):
            """Both halves where the layer gives them to cuDNN, elsewhere the variable."""
            if not self.calling:
                return self.trained_bias
            import tensorflow

            trained = tensorflow.convert_to_tensor(self.trained_bias)
            return tensorflow.concat([trained, tensorflow.zeros_like(trained)], 0)

        @bias.setter
        def bias(self, variable):
            self.trained_bias = variable

    return CuDNNLSTM


def _class(keras, name):
    """Where this Keras keeps the class: among its layers, or among those of version 1."""
    if hasattr(keras.layers, name):
        return getattr(keras.layers, name)
    version = keras_version(keras)
    if not version.startswith("2."):
        raise ValueError("Keras {} has no {}".format(version, name))
    import tensorflow

    layers = tensorflow.compat.v1.keras.layers
    if not hasattr(layers, name):
        raise ValueError("this build's Keras has no {}".format(name))
    return getattr(layers, name)
