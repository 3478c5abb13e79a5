"""``LSTMBlockCell`` and ``GRUBlockCell``: one fused op per time step, in a loop.

Source: TensorFlow's op definitions (rnn_ops.cc) and the gradients that tf.contrib registered for
them (tensorflow/contrib/rnn/python/ops/lstm_ops.py and gru_ops.py, 1.15). TensorFlow 2 has the
gradient ops but does not register them, so a custom gradient calls them here.

- LSTM: one matrix of (inputs + units) × 4·units, gates i, c, f, o. The op's defaults add 1 to the
  forget gate and clip the state at 3; here the bias is 0 and the clip is off (0 or less).
- GRU: gates r, u in one matrix, the candidate in another; u is Keras's z. The reset gate multiplies
  the state before the product, so this is the cell ``gru_reset_before``, not cuDNN's ``gru``.
"""

from rnnworker.recurrent.cells import supported
from rnnworker.recurrent.layer import layer_settings, sequence_layer

FORGET_BIAS = 0.0
CELL_CLIP = -1.0
LAYOUTS = {"lstm": "lstm_icfo", "gru_reset_before": "gru_reset_before"}


def make(keras, cell, units, options):
    supported("a block cell", cell, tuple(LAYOUTS), options)
    import tensorflow

    class BlockCell(sequence_layer(keras, tensorflow)):
        layout = LAYOUTS[cell]

        def hidden_states(self, sequence):
            weights = self.tensors()
            states = 1
            step = _gru_cell(tensorflow)
            if cell == "lstm":
                states = 2
                step = _lstm_cell(tensorflow)
            return _loop(tensorflow, step, weights, sequence, self.units, states)

    return BlockCell(units, **layer_settings(options))


def _loop(tensorflow, step, weights, sequence, units, states):
    """Runs `step`, a function of (input, *states, *weights) → states, over a sequence (time, batch,
    features) in a while loop, from zero states. The last of its `states` is the output. Returns
    (time, batch, units)."""
    shape = tensorflow.shape(sequence)
    arrays = tensorflow.TensorArray
    inputs = arrays(sequence.dtype, size=shape[0]).unstack(sequence)
    outputs = arrays(sequence.dtype, size=shape[0], element_shape=[sequence.shape[1], units])
    zeros = tensorflow.zeros([shape[1], units], sequence.dtype)
    zeros.set_shape([sequence.shape[1], units])

    def body(time, outputs, *before):
        after = step(inputs.read(time), *before, *weights)
        return (time + 1, outputs.write(time, after[-1])) + tuple(after)

    start = (tensorflow.constant(0), outputs) + (zeros,) * states
    end = tensorflow.while_loop(
        lambda time, *_: time < shape[0],
        body,
        start,
        maximum_iterations=shape[0],
    )
    return end[1].stack()


def _lstm_cell(tensorflow):
    ops = tensorflow.raw_ops

    @tensorflow.custom_gradient
    def cell(x, memory, hidden, matrix, bias):
        """One step: (batch, inputs), two (batch, units) → new memory and hidden state."""
        peephole = tensorflow.zeros([bias.shape[0] // 4], x.dtype)
        arguments = {
            "x": x,
            "cs_prev": memory,
            "h_prev": hidden,
            "w": matrix,
            "b": bias,
            "wci": peephole,
            "wcf": peephole,
            "wco": peephole,
            "use_peephole": False,
        }
        new = ops.LSTMBlockCell(forget_bias=FORGET_BIAS, cell_clip=CELL_CLIP, **arguments)

        def gradient(memory_gradient, hidden_gradient):
            results = {name: getattr(new, name) for name in ("i", "cs", "f", "o", "ci", "co")}
            results.update(cs_grad=memory_gradient, h_grad=hidden_gradient)
            back = ops.LSTMBlockCellGrad(**dict(arguments, **results))
            gates = back.dicfo
            x_and_hidden = tensorflow.concat([x, hidden], 1)
            input_gradients = tensorflow.matmul(gates, matrix, transpose_b=True)
            inputs = int(matrix.shape[0]) - int(bias.shape[0]) // 4
            matrix_gradient = tensorflow.matmul(x_and_hidden, gates, transpose_a=True)
            return (
                input_gradients[:, :inputs],
                back.cs_prev_grad,
                input_gradients[:, inputs:],
                matrix_gradient,
                tensorflow.reduce_sum(gates, 0),
            )

        return (new.cs, new.h), gradient

    return cell


def _gru_cell(tensorflow):
    ops = tensorflow.raw_ops

    @tensorflow.custom_gradient
    def cell(x, hidden, gates, gates_bias, candidate, candidate_bias):
        """One step: (batch, inputs), (batch, units) → the new hidden state, in a tuple."""
        arguments = {
            "x": x,
            "h_prev": hidden,
            "w_ru": gates,
            "w_c": candidate,
            "b_ru": gates_bias,
            "b_c": candidate_bias,
        }
        new = ops.GRUBlockCell(**arguments)

        def gradient(hidden_gradient):
            back = ops.GRUBlockCellGrad(
                d_h=hidden_gradient,
                r=new.r,
                u=new.u,
                c=new.c,
                **arguments,
            )
            x_and_hidden = tensorflow.concat([x, hidden], 1)
            x_and_reset = tensorflow.concat([x, hidden * new.r], 1)
            return (
                back.d_x,
                back.d_h_prev,
                tensorflow.matmul(x_and_hidden, back.d_r_bar_u_bar, transpose_a=True),
                tensorflow.reduce_sum(back.d_r_bar_u_bar, 0),
                tensorflow.matmul(x_and_reset, back.d_c_bar, transpose_a=True),
                tensorflow.reduce_sum(back.d_c_bar, 0),
            )

        return (new.h,), gradient

    return cell
