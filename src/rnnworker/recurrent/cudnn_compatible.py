"""The platform-independent cells that load what cuDNN has trained, in TensorFlow's plain ops.

Source: tf.contrib.cudnn_rnn's CudnnCompatibleLSTMCell and CudnnCompatibleGRUCell (1.15). The LSTM
cell keeps one matrix of (inputs + units) × 4·units, gates i, c, f, o, with no forget bias of its
own. The GRU cell resets after the product and projects inputs and state apart. contrib's GRU adds
cuDNN's two gate biases up; here both are kept, for with one of them the gates' biases learn at half
the speed and the network is another one after the first step.
"""

import numpy

from rnnworker.recurrent.block_cell import _swapped
from rnnworker.recurrent.cells import from_canonical as plain_from_canonical
from rnnworker.recurrent.cells import refuse
from rnnworker.recurrent.cells import to_canonical as plain_to_canonical

ICFO = (0, 2, 1, 3)


def make(keras, cell, units, options):
    import tensorflow

    refuse("a cuDNN-compatible cell", cell, ("lstm", "gru"), options)
    options = {n: v for n, v in options.items() if n not in ("dropout", "recurrent_dropout")}
    classes = {"lstm": _lstm_cell, "gru": _gru_cell}
    return keras.layers.RNN(classes[cell](keras, tensorflow)(units), **options)


def to_canonical(layer, values=None):
    values = layer.get_weights() if values is None else values
    if len(values) == 3:
        return plain_to_canonical(layer, values)
    both, bias = (_swapped(value, 4, ICFO) for value in values)
    inputs = both.shape[0] - bias.shape[0] // 4
    return {"kernel": both[:inputs], "recurrent": both[inputs:], "bias": bias}


def from_canonical(layer, arrays):
    if len(layer.get_weights()) == 3:
        plain_from_canonical(layer, arrays)
        return
    both = numpy.concatenate([arrays["kernel"], arrays["recurrent"]], axis=0)
    layer.set_weights([_swapped(value, 4, ICFO) for value in (both, arrays["bias"])])


def _lstm_cell(keras, tensorflow):
    class CudnnCompatibleLSTMCell(keras.layers.Layer):
        """x (batch, inputs), [h, c] → h, [h, c]."""

        def __init__(self, units, **settings):
            super().__init__(**settings)
            self.units = self.output_size = units
            self.state_size = [units, units]

        def build(self, shape):
            rows, columns = int(shape[-1]) + self.units, 4 * self.units
            self.both = self.add_weight(shape=(rows, columns), initializer="zeros", name="kernel")
            self.bias = self.add_weight(shape=(columns,), initializer="zeros", name="bias")
            self.built = True

        def call(self, x, states):
            hidden, memory = states
            inputs = tensorflow.concat([x, hidden], 1)
            both, bias = (tensorflow.convert_to_tensor(v) for v in (self.both, self.bias))
            gates = tensorflow.nn.bias_add(tensorflow.matmul(inputs, both), bias)
            i, c, f, o = tensorflow.split(gates, 4, axis=1)
            memory = tensorflow.sigmoid(f) * memory + tensorflow.sigmoid(i) * tensorflow.tanh(c)
            hidden = tensorflow.sigmoid(o) * tensorflow.tanh(memory)
            return hidden, [hidden, memory]

    return CudnnCompatibleLSTMCell


def _gru_cell(keras, tensorflow):
    class CudnnCompatibleGRUCell(keras.layers.Layer):
        """x (batch, inputs), [h] → h, [h]."""

        def __init__(self, units, **settings):
            super().__init__(**settings)
            self.units = self.state_size = self.output_size = units

        def build(self, shape):
            columns = 3 * self.units
            shapes = [(int(shape[-1]), columns), (self.units, columns), (2, columns)]
            self.input_projection, self.hidden_projection, self.biases = (
                self.add_weight(shape=size, initializer="zeros", name=name)
                for size, name in zip(shapes, ("input_projection", "hidden_projection", "biases"))
            )
            self.built = True

        def call(self, x, states):
            hidden = states[0]
            names = ("input_projection", "hidden_projection", "biases")
            inputs, recurrent, bias = (
                tensorflow.convert_to_tensor(getattr(self, name)) for name in names
            )
            from_x = tensorflow.split(tensorflow.matmul(x, inputs) + bias[0], 3, axis=1)
            from_h = tensorflow.split(tensorflow.matmul(hidden, recurrent) + bias[1], 3, axis=1)
            update = tensorflow.sigmoid(from_x[0] + from_h[0])
            reset = tensorflow.sigmoid(from_x[1] + from_h[1])
            candidate = tensorflow.tanh(from_x[2] + reset * from_h[2])
            hidden = (1 - update) * candidate + update * hidden
            return hidden, [hidden]

    return CudnnCompatibleGRUCell
