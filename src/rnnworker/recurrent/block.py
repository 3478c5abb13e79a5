"""``BlockLSTMV2``: the whole sequence in one fused CPU op, forward and backward.

Source: TensorFlow's op definition ``BlockLSTMV2`` (rnn_ops.cc): inputs time-major, gates in
the order i, f, c, o (``ifco``, Keras's too), one matrix of (inputs + units) × 4·units, no
forget bias of its own. Peepholes are off, the cell state is not clipped (`cell_clip` 0).

The gradient that TensorFlow registers for this op is wrong: ``rnn_grad.py`` (2.21 too) calls
``BlockLSTMGrad``, whose gate order is i, c, f, o, for both versions of the op, and a network
with it does not learn. Here ``BlockLSTMGradV2`` is called, which has the right order.
"""

import numpy

GATES = 4


def make(keras, cell, units, options):
    import tensorflow

    if cell != "lstm":
        raise ValueError("BlockLSTMV2 is an LSTM; it has no {}".format(cell))
    if options["dropout"] or options["recurrent_dropout"]:
        raise ValueError("BlockLSTMV2 has no dropout inside the cell")
    return _layer_class(keras, tensorflow)(
        units, return_sequences=options["return_sequences"], name=options.get("name")
    )


def to_canonical(layer):
    weights, bias = layer.get_weights()
    inputs = weights.shape[0] - layer.units
    return {"kernel": weights[:inputs], "recurrent": weights[inputs:], "bias": bias}


def from_canonical(layer, arrays):
    weights = numpy.concatenate([arrays["kernel"], arrays["recurrent"]], axis=0)
    layer.set_weights([weights, arrays["bias"]])


def _layer_class(keras, tensorflow):
    class BlockLSTM(keras.layers.Layer):
        """inputs (batch, time, features) → last output (batch, units), or all of them."""

        def __init__(self, units, return_sequences=False, **settings):
            super().__init__(**settings)
            self.units = units
            self.return_sequences = return_sequences

        def build(self, shape):
            rows = shape[-1] + self.units
            columns = GATES * self.units
            self.weights_and_recurrent = self.add_weight(
                shape=(rows, columns), initializer="zeros", name="kernel"
            )
            self.bias = self.add_weight(shape=(columns,), initializer="zeros", name="bias")

        def compute_output_shape(self, shape):
            if self.return_sequences:
                return (shape[0], shape[1], self.units)
            return (shape[0], self.units)

        def call(self, inputs):
            hidden = _block_lstm(tensorflow)(
                tensorflow.transpose(inputs, [1, 0, 2]),
                tensorflow.convert_to_tensor(self.weights_and_recurrent),
                tensorflow.convert_to_tensor(self.bias),
            )
            hidden.set_shape([inputs.shape[1], inputs.shape[0], self.units])
            if self.return_sequences:
                return tensorflow.transpose(hidden, [1, 0, 2])
            return hidden[-1]

    return BlockLSTM


def _block_lstm(tensorflow):
    ops = tensorflow.raw_ops

    @tensorflow.custom_gradient
    def block_lstm(sequence, weights, bias):
        """sequence (time, batch, inputs), weights (inputs + units, 4·units), bias (4·units,)
        → hidden states (time, batch, units), both initial states zero."""
        units = bias.shape[0] // GATES
        shape = tensorflow.shape(sequence)
        zeros = tensorflow.zeros([shape[1], units], sequence.dtype)
        peephole = tensorflow.zeros([units], sequence.dtype)
        shared = {
            "seq_len_max": tensorflow.cast(shape[0], tensorflow.int64),
            "x": sequence,
            "cs_prev": zeros,
            "h_prev": zeros,
            "w": weights,
            "wci": peephole,
            "wcf": peephole,
            "wco": peephole,
            "b": bias,
            "use_peephole": False,
        }
        forward = ops.BlockLSTMV2(cell_clip=0.0, **shared)

        def gradient(hidden_gradient):
            backward = ops.BlockLSTMGradV2(
                cs_grad=tensorflow.zeros_like(forward.cs),
                h_grad=hidden_gradient,
                **dict(shared, **forward._asdict()),
            )
            return backward.x_grad, backward.w_grad, backward.b_grad

        return forward.h, gradient

    return block_lstm
