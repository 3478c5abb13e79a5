"""``BlockLSTMV2``: the whole sequence in one fused CPU op, forward and backward.

Source: TensorFlow's op definition ``BlockLSTMV2`` (rnn_ops.cc): inputs time-major, gates in
the order i, f, c, o (``ifco``, as in Keras), one matrix of (inputs + units) × 4·units, no
additional forget bias. Peepholes are off, the cell state is not clipped (`cell_clip` 0).

The gradient that TensorFlow registers for this op is wrong: ``rnn_grad.py`` (in 2.21 too) calls
``BlockLSTMGrad``, whose gate order is i, c, f, o, for both versions of the op, and a network
with this gradient does not learn. This module calls ``BlockLSTMGradV2``, whose order is right.
"""

from rnnworker.recurrent.cells import supported
from rnnworker.recurrent.layer import layer_settings, sequence_layer

GATES = 4


def make(keras, cell, units, options):
    supported("BlockLSTMV2", cell, ("lstm",), options)
    import tensorflow

    class BlockLSTM(sequence_layer(keras, tensorflow)):
        layout = "lstm_ifco"

        def hidden_states(self, sequence):
            return _block_lstm(tensorflow)(sequence, *self.tensors())

    return BlockLSTM(units, **layer_settings(options))


def _block_lstm(tensorflow):
    ops = tensorflow.raw_ops

    @tensorflow.custom_gradient
    def block_lstm(sequence, weights, bias):
        """sequence (time, batch, inputs), weights (inputs + units, 4·units), bias (4·units,)
        → hidden states (time, batch, units). Both initial states are zero."""
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
