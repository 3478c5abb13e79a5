"""Keras 2's ``CuDNNLSTM`` and ``CuDNNGRU`` layers. GPU only.

Source of the format of the weights: Keras 2's converter (``preprocess_weights_for_loading``, 2.2 to
2.x): the rows of input matrices, read in order, are cuDNN's; recurrent matrices are transposed gate
by gate; the biases are in one row, the input's before the state's. Keras trains both halves of an
LSTM's row; here the state's half is zero and not trained (`cudnn_layout` says why). Both halves of
a GRU are trained, as in Keras's own GRU.
"""

import numpy

from rnnworker.recurrent.cells import WITH_CUDNN, keras_version, supported

OPTIONS = (
    "kernel_regularizer",
    "recurrent_regularizer",
    "bias_regularizer",
    "kernel_constraint",
    "recurrent_constraint",
    "bias_constraint",
)
LAYERS = {"lstm": "CuDNNLSTM", "gru": "CuDNNGRU"}


def make(keras, cell, units, options):
    options = supported("a CuDNN layer", cell, WITH_CUDNN, options)
    name = LAYERS[cell]
    layers = keras.layers
    if not hasattr(layers, name):
        version = keras_version(keras)
        if not version.startswith("2."):
            raise ValueError("Keras {} has no {}".format(version, name))
        import tensorflow

        layers = tensorflow.compat.v1.keras.layers
        if not hasattr(layers, name):
            raise ValueError("this build's Keras has no {}".format(name))
    layer_class = getattr(layers, name)
    if cell == "lstm":
        layer = _with_one_bias(layer_class)(units, unit_forget_bias=False, **options)
    else:
        layer = layer_class(units, **options)
    layer.unpack = unpack
    return layer


def unpack(values):
    """The canonical arrays of the trained weights, [kernel, recurrent, bias], of a layer, or of
    their gradients."""
    kernel, recurrent, bias = values
    units, columns = numpy.shape(recurrent)
    if columns == 3 * units:  # of a GRU
        bias = numpy.reshape(bias, (2, columns))
    return {
        "kernel": _map_gates(kernel, units, lambda gate: gate.reshape(gate.shape[::-1]).T),
        "recurrent": _map_gates(recurrent, units, numpy.transpose),
        "bias": bias,
    }


def _map_gates(matrix, units, change):
    gates = numpy.split(matrix, matrix.shape[1] // units, axis=1)
    return numpy.concatenate([change(gate) for gate in gates], axis=1)


def _with_one_bias(layer_class):
    """`layer_class` (CuDNNLSTM) with only the first half of its row of biases trained."""

    class CuDNNLSTM(layer_class):
        def add_weight(self, *arguments, **settings):
            if settings.get("name") == "bias":
                settings["shape"] = (4 * self.units,)
            return super().add_weight(*arguments, **settings)

        def _process_batch(self, inputs, initial_state):
            import tensorflow

            variable = self.bias
            trained = tensorflow.convert_to_tensor(variable)
            both_halves = tensorflow.concat([trained, tensorflow.zeros_like(trained)], 0)
            object.__setattr__(self, "bias", both_halves)  # Keras's own would track it
            try:
                return super()._process_batch(inputs, initial_state)
            finally:
                object.__setattr__(self, "bias", variable)

    return CuDNNLSTM
