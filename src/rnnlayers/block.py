"""``block``: TensorFlow's op ``BlockLSTMV2``, the whole sequence in one op, forward and backward.

Source: TensorFlow's op definition (rnn_ops.cc): inputs time-major, gates in Keras's order i, f, c,
o, one matrix of (inputs + units) × 4·units, no additional forget bias. Peepholes are off, the cell
state is not clipped (``cell_clip`` 0).

The gradient that TensorFlow registers for this op is wrong: ``rnn_grad.py`` (in 2.21 too) calls
``BlockLSTMGrad``, whose gate order is i, c, f, o, for both versions of the op. This module calls
``BlockLSTMGradV2``, whose order is right.
"""

from rnnlayers.refusals import of_dtype
from rnnlayers.sequences import cause_of_cell, differentiated_once, joint_weights, time_major

BACKENDS = ("tensorflow",)
COMPILED_ON = ()
CAN = {"LSTM": {"activation": ("tanh",), "recurrent_activation": ("sigmoid",)}}
DTYPES = ("float32", "float16")
GATES = 4


def cause(keras, layer):
    """Why the op cannot compute `layer`; None if it can."""
    found = cause_of_cell(keras, layer, CAN)
    if found is None and layer.cell.compute_dtype not in DTYPES:
        found = of_dtype(layer.cell.compute_dtype, DTYPES)
    return found


def methods(keras):
    return BlockLSTM


class BlockLSTM:
    def inner_loop(self, sequences, initial_state, mask, training=False):
        import tensorflow

        differentiated_once(tensorflow, "block", "BlockLSTMGradV2")
        cell = self.cell
        x = time_major(tensorflow, self, sequences, mask, training)
        weights, bias = joint_weights(tensorflow, cell, x.dtype)
        # The gradient must not read a variable that a stateful layer has set by then.
        states = [tensorflow.convert_to_tensor(state) for state in initial_state]
        hidden, memory = block_lstm(tensorflow)(x, weights, bias, *states)
        hidden.set_shape([x.shape[0], x.shape[1], cell.units])
        memory.set_shape([x.shape[1], cell.units])
        last = hidden[-1]
        outputs = tensorflow.transpose(hidden, [1, 0, 2])
        return last, outputs, [last, memory]


def block_lstm(tensorflow):
    @tensorflow.custom_gradient
    def run(x, weights, bias, hidden, memory):
        """x (time, batch, inputs), weights (inputs + units, 4·units), bias (4·units,), both states
        (batch, units) → hidden states (time, batch, units), the last memory (batch, units)."""
        peephole = tensorflow.zeros([bias.shape[0] // GATES], x.dtype)
        shared = {
            "seq_len_max": tensorflow.cast(tensorflow.shape(x)[0], tensorflow.int64),
            "x": x,
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

        def gradient(hidden_gradient, memory_gradient):
            earlier = tensorflow.zeros_like(forward.cs[:-1])
            memory_gradients = tensorflow.concat([earlier, memory_gradient[None]], 0)
            found = tensorflow.raw_ops.BlockLSTMGradV2(
                cs_grad=memory_gradients,
                h_grad=hidden_gradient,
                **dict(shared, **forward._asdict()),
            )
            of_weights = found.x_grad, found.w_grad, found.b_grad
            return of_weights + (found.h_prev_grad, found.cs_prev_grad)

        return (forward.h, forward.cs[-1]), gradient

    return run
