"""Platform-independent cells, made of TensorFlow's plain ops, for weights trained by cuDNN.

Source: tf.contrib.cudnn_rnn's CudnnCompatibleLSTMCell and CudnnCompatibleGRUCell (1.15). The LSTM
cell has one matrix of (inputs + units) × 4·units, gates i, c, f, o, and no additional forget bias.
The GRU cell resets after the product and projects inputs and state separately. contrib's GRU adds
cuDNN's two gate biases to one variable; here both are variables, since the biases of the gates
would otherwise learn at half the speed and the networks would differ after the first step.
"""

from rnnworker.recurrent.cells import shapes, supported


def make(keras, cell, units, options):
    """A layer of Keras that runs the cell ``lstm`` or ``gru`` step by step."""
    options = supported("a cuDNN-compatible cell", cell, ("lstm", "gru"), options)
    import tensorflow

    is_lstm = cell == "lstm"
    step = _lstm if is_lstm else _gru

    class CudnnCompatibleCell(keras.layers.Layer):
        """x (batch, inputs), states → h, states: h, and c of an LSTM."""

        if is_lstm:
            layout = "lstm_icfo"

        def __init__(self, units, **settings):
            super().__init__(**settings)
            self.units = self.output_size = units
            self.state_size = [units, units] if is_lstm else units

        def build(self, shape):
            inputs = int(shape[-1])
            if is_lstm:
                sizes = shapes(self.layout, inputs, self.units)
            else:
                columns = 3 * self.units
                sizes = [
                    (inputs, columns),
                    (self.units, columns),
                    (2, columns),
                ]
            self.arrays = []
            for number, size in enumerate(sizes):
                weight = self.add_weight(
                    shape=size,
                    initializer="zeros",
                    name="weight_{}".format(number),
                )
                self.arrays.append(weight)
            self.built = True

        def call(self, x, states):
            weights = [tensorflow.convert_to_tensor(variable) for variable in self.arrays]
            states = step(tensorflow, x, states, *weights)
            return states[0], states

    return keras.layers.RNN(CudnnCompatibleCell(units), **options)


def _lstm(tensorflow, x, states, matrix, bias):
    """The next states from x (batch, inputs) and the `states` h and c, each (batch, units)."""
    hidden, memory = states
    inputs = tensorflow.concat([x, hidden], 1)
    gates = tensorflow.matmul(inputs, matrix)
    gates = tensorflow.nn.bias_add(gates, bias)
    i, c, f, o = tensorflow.split(gates, 4, axis=1)

    sigmoid = tensorflow.sigmoid
    tanh = tensorflow.tanh
    memory = sigmoid(f) * memory + sigmoid(i) * tanh(c)
    return [sigmoid(o) * tanh(memory), memory]


def _gru(tensorflow, x, states, inputs, recurrent, bias):
    """As `_lstm`, from the state h: the matrices of the inputs and of the state, and both biases,
    (2, 3·units)."""
    hidden = states[0]
    from_x = tensorflow.matmul(x, inputs) + bias[0]
    from_x = tensorflow.split(from_x, 3, axis=1)
    from_h = tensorflow.matmul(hidden, recurrent) + bias[1]
    from_h = tensorflow.split(from_h, 3, axis=1)

    update = tensorflow.sigmoid(from_x[0] + from_h[0])
    reset = tensorflow.sigmoid(from_x[1] + from_h[1])
    candidate = tensorflow.tanh(from_x[2] + reset * from_h[2])
    return [(1 - update) * candidate + update * hidden]
