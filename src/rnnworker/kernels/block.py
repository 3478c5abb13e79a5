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
        states = 2

        def hidden_states(self, sequence):
            return _block_lstm(tensorflow)(sequence, *self.tensors())

        def outputs_and_states(self, inputs, initial):
            sequence = self.sequence_of(inputs)
            if initial is None:
                shape = [tensorflow.shape(sequence)[1], self.units]
                initial = [tensorflow.zeros(shape, sequence.dtype)] * 2
            hidden, memory = _block_lstm_with_states(tensorflow)(
                sequence,
                *self.tensors(),
                *initial,
            )
            return self.outputs_of(inputs, hidden), (hidden[-1], memory)

    return BlockLSTM(units, **layer_settings(options))


def _block_lstm(tensorflow):
    @tensorflow.custom_gradient
    def block_lstm(sequence, weights, bias):
        """sequence (time, batch, inputs), weights (inputs + units, 4·units), bias (4·units,)
        → hidden states (time, batch, units). Both initial states are zero."""
        shape = [tensorflow.shape(sequence)[1], bias.shape[0] // GATES]
        zeros = tensorflow.zeros(shape, sequence.dtype)
        forward, backward = _forward(tensorflow, sequence, weights, bias, zeros, zeros)

        def gradient(hidden_gradient):
            found = backward(hidden_gradient, tensorflow.zeros_like(forward.cs))
            return found.x_grad, found.w_grad, found.b_grad

        return forward.h, gradient

    return block_lstm


def _block_lstm_with_states(tensorflow):
    @tensorflow.custom_gradient
    def block_lstm(sequence, weights, bias, hidden, memory):
        """As `_block_lstm`, from the states `hidden` and `memory` (batch, units) → hidden states
        (time, batch, units), the last state of the memory (batch, units)."""
        forward, backward = _forward(tensorflow, sequence, weights, bias, hidden, memory)

        def gradient(hidden_gradient, memory_gradient):
            earlier = tensorflow.zeros_like(forward.cs[:-1])
            memory_gradients = tensorflow.concat([earlier, memory_gradient[None]], 0)
            found = backward(hidden_gradient, memory_gradients)
            of_weights = found.x_grad, found.w_grad, found.b_grad
            return of_weights + (found.h_prev_grad, found.cs_prev_grad)

        return (forward.h, forward.cs[-1]), gradient

    return block_lstm


def _forward(tensorflow, sequence, weights, bias, hidden, memory):
    """(what the op returns, its backward function of the gradients of all hidden states and of all
    states of the memory)."""
    peephole = tensorflow.zeros([bias.shape[0] // GATES], sequence.dtype)
    shared = {
        "seq_len_max": tensorflow.cast(tensorflow.shape(sequence)[0], tensorflow.int64),
        "x": sequence,
        "cs_prev": memory,
        "h_prev": hidden,
        "w": weights,
        "wci": peephole,
        "wcf": peephole,
        "wco": peephole,
        "b": bias,
        "use_peephole": False,
    }
    forward = tensorflow.raw_ops.BlockLSTMV2(cell_clip=0.0, **shared)

    def backward(hidden_gradients, memory_gradients):
        return tensorflow.raw_ops.BlockLSTMGradV2(
            cs_grad=memory_gradients,
            h_grad=hidden_gradients,
            **dict(shared, **forward._asdict()),
        )

    return forward, backward
