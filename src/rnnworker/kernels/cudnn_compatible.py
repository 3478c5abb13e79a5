"""Platform-independent cells, made of TensorFlow's plain ops, for weights trained by cuDNN.

Source: tf.contrib.cudnn_rnn's CudnnCompatibleLSTMCell and CudnnCompatibleGRUCell (1.15). The LSTM
cell has one matrix of (inputs + units) × 4·units, gates i, c, f, o, and no additional forget bias.
The GRU cell resets after the product and projects inputs and state separately. contrib's GRU adds
cuDNN's two gate biases to one variable; here both are variables, since the biases of the gates
would otherwise learn at half the speed and the networks would differ after the first step.
"""

from rnnworker.recurrent.cells import supported


def make(keras, cell, units, options):
    options = supported("a cuDNN-compatible cell", cell, ("lstm", "gru"), options)
    import tensorflow

    classes = {"lstm": _lstm_cell, "gru": _gru_cell}
    return keras.layers.RNN(classes[cell](keras, tensorflow)(units), **options)


def _lstm_cell(keras, tensorflow):
    class CudnnCompatibleLSTMCell(keras.layers.Layer):
        """x (batch, inputs), [h, c] → h, [h, c]."""

        layout = "lstm_icfo"

        def __init__(self, units, **settings):
            super().__init__(**settings)
            self.units = self.output_size = units
            self.state_size = [units, units]

        def build(self, shape):
            rows, columns = int(shape[-1]) + self.units, 4 * self.units
            self.matrix = self.add_weight(shape=(rows, columns), initializer="zeros", name="kernel")
            self.bias = self.add_weight(shape=(columns,), initializer="zeros", name="bias")
            self.built = True

        def call(self, x, states):
            hidden, memory = states
            inputs = tensorflow.concat([x, hidden], 1)
            matrix, bias = (tensorflow.convert_to_tensor(v) for v in (self.matrix, self.bias))
            gates = tensorflow.nn.bias_add(tensorflow.matmul(inputs, matrix), bias)
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
