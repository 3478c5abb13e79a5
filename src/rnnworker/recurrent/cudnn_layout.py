"""The base class of layers on cuDNN's opaque buffer of parameters, and the buffer's layout.

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

An LSTM or a simple cell has one bias in canonical form and two here, which cuDNN adds. The trained
variable has the input biases only; the second set is zero and not trained. If it were trained, both
sets would get the whole gradient of the bias, and their sum would learn twice as fast as Keras's
single bias. Both sets of a GRU are trained, as in Keras.
"""

import numpy

from rnnworker import canonical_weights
from rnnworker.recurrent import cells
from rnnworker.recurrent.layer import sequence_layer

# Cell (also cuDNN's mode) → cuDNN's gates as places in the canonical order.
ORDERS = {
    "lstm": (0, 1, 2, 3),
    "gru": (1, 0, 2),
    "rnn_tanh": (0,),
    "rnn_relu": (0,),
}
DIRECTIONS = {1: "unidirectional", 2: "bidirectional"}


def buffer_layer(keras, tensorflow, cell, layers, both):
    """The base class of layers that compute a stack of `layers` in 1 or 2 directions, `both`, on
    one buffer."""

    class BufferLayer(sequence_layer(keras, tensorflow)):
        directions = both

        def make_weights(self, inputs):
            self.trained = self.zeros("opaque_kernel", trained_size(cell, *self.sizes()))

        def sizes(self):
            return self.inputs_size, self.units, layers, both

        def whole_buffer(self):
            return with_untrained(tensorflow, self.trained, cell, *self.sizes())

        def unpack(self, values):
            return unpack(cell, values[0], *self.sizes())

    return BufferLayer


def trained_size(cell, inputs, units, layers=1, directions=1):
    """The length of the trained part: the whole buffer of a GRU, else without the second biases."""
    rows = 0
    for features in _features(inputs, units, layers, directions):
        rows += features + units + _trained_biases(cell)
    return rows * len(ORDERS[cell]) * units


def with_untrained(tensorflow, trained, cell, inputs, units, layers=1, directions=1):
    """The whole buffer as a tensor: the variable `trained` with the zeros that are not trained."""
    trained = tensorflow.convert_to_tensor(trained)
    if _trained_biases(cell) == 2:
        return trained
    bias = len(ORDERS[cell]) * units
    others = layers * directions - 1
    pieces = [trained]
    if others:
        # The first piece has all matrices and the first bias, each other one has a bias.
        size = trained_size(cell, inputs, units, layers, directions)
        first = size - others * bias
        pieces = tensorflow.split(trained, [first] + [bias] * others)
    zeros = tensorflow.zeros([bias], trained.dtype)
    whole = []
    for piece in pieces:
        whole += [piece, zeros]
    return tensorflow.concat(whole, 0)


def layout(cell):
    """The trained weights of a pseudo-layer (see `cells.LAYOUTS`), their matrices transposed."""
    names = cells.ARRAYS
    if _trained_biases(cell) == 2:
        names += ("second_bias",)
    return tuple((name, ORDERS[cell]) for name in names)


def unpack(cell, trained, inputs, units, layers=1, directions=1):
    """The canonical arrays of the trained part of a buffer, or of its gradients."""
    trained = numpy.asarray(trained)
    columns = len(ORDERS[cell]) * units
    matrices = []
    start = 0
    for features in _features(inputs, units, layers, directions):
        for rows in (features, units):
            end = start + rows * columns
            matrices.append(trained[start:end].reshape(columns, rows).T)
            start = end
    parts = []
    biases = trained[start:].reshape(layers * directions, -1, columns)
    for number, its_biases in enumerate(biases):
        first = 2 * number
        weights = matrices[first : first + 2] + list(its_biases)
        parts.append(cells.unpack(layout(cell), weights, units))
    return nested(parts, directions)


def nested(parts, directions):
    """The canonical arrays of a layer from those of its pseudo-layers, in cuDNN's order."""
    join = canonical_weights.join
    if directions == 2:
        pairs = zip(parts[::2], parts[1::2])
        parts = [join(canonical_weights.DIRECTIONS, pair) for pair in pairs]
    if len(parts) == 1:
        return parts[0]
    return join(canonical_weights.layer_prefixes(len(parts)), parts)


def _trained_biases(cell):
    """How many biases of a pseudo-layer are trained."""
    return 2 if cell == "gru" else 1


def _features(inputs, units, layers, directions):
    """The number of inputs of each pseudo-layer."""
    upper = (layers - 1) * directions
    return [inputs] * directions + [directions * units] * upper
