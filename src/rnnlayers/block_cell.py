"""``block_cell``: TensorFlow's ops ``LSTMBlockCell`` and ``GRUBlockCell``, one for each time step,
in a loop.

Source: TensorFlow's op definitions (rnn_ops.cc) and the gradients that tf.contrib registered for
them (tensorflow/contrib/rnn/python/ops/lstm_ops.py and gru_ops.py, 1.15). TensorFlow 2 has the
gradient ops but does not register them, so a custom gradient calls them here.

- LSTM: one matrix of (inputs + units) × 4·units, gates i, c, f, o. The op's defaults add 1 to the
  forget gate and clip the state at 3; here the bias is 0 and the clip is off (0 or less).
- GRU: gates r, u in one matrix, the candidate in another; u is Keras's z. The reset gate multiplies
  the state before the product, as in Keras with ``reset_after=False``.
"""

from rnnlayers import refusals
from rnnlayers.sequences import cause_of_cell, differentiated_once, joint_weights, time_major

BACKENDS = ("tensorflow",)
COMPILED_ON = ()
GATED = {"activation": ("tanh",), "recurrent_activation": ("sigmoid",)}
CAN = {"LSTM": GATED, "GRU": GATED}
DTYPES = {4: ("float32", "float16"), 3: ("float32",)}
WITHOUT_GRADIENTS = ("LSTMBlockCell", "LSTMBlockCellGrad", "GRUBlockCell", "GRUBlockCellGrad")
FORGET_BIAS = 0.0
CELL_CLIP = -1.0


def cause(keras, layer):
    """Why the ops cannot compute `layer`; None if they can."""
    found = cause_of_cell(keras, layer, CAN)
    if found:
        return found
    is_gru = isinstance(layer.cell, keras.cells["GRU"])
    if is_gru and layer.cell.reset_after:
        return refusals.RESET_AFTER
    dtypes = DTYPES[3 if is_gru else 4]
    if layer.cell.compute_dtype not in dtypes:
        return refusals.of_dtype(layer.cell.compute_dtype, dtypes)
    return None


def methods(keras):
    return BlockCell


class BlockCell:
    def inner_loop(self, sequences, initial_state, mask, training=False):
        import tensorflow

        differentiated_once(tensorflow, "block_cell", *WITHOUT_GRADIENTS)
        x = time_major(tensorflow, self, sequences, mask, training)
        weights = _weights(tensorflow, self.cell, x.dtype)
        if len(initial_state) == 2:
            step = _lstm_cell(tensorflow)
        else:
            step = _gru_cell(tensorflow)
        hidden, states = _loop(tensorflow, step, weights, x, initial_state)
        return states[0], tensorflow.transpose(hidden, [1, 0, 2]), states


def _weights(tensorflow, cell, dtype):
    """The weights of the op, gates in its order, out of Keras's."""
    matrix, bias = joint_weights(tensorflow, cell, dtype)
    gates = matrix.shape[-1] // cell.units
    columns = tensorflow.split(matrix, gates, 1)
    biases = tensorflow.split(bias, gates)
    if gates == 4:
        i, f, c, o = range(4)
        order = [i, c, f, o]
        return [
            tensorflow.concat([columns[gate] for gate in order], 1),
            tensorflow.concat([biases[gate] for gate in order], 0),
        ]
    z, r, h = range(3)
    return [
        tensorflow.concat([columns[r], columns[z]], 1),
        tensorflow.concat([biases[r], biases[z]], 0),
        columns[h],
        biases[h],
    ]


def _loop(tensorflow, step, weights, x, initial):
    """Runs `step`, a function of (input, *states, *weights) → states, over x (time, batch,
    features) in a while loop from the states `initial`. The first state is the output. Returns
    (outputs (time, batch, units), the last states)."""
    steps = tensorflow.shape(x)[0]
    shape = [x.shape[1], weights[-1].shape[-1] if len(initial) == 1 else initial[0].shape[-1]]
    arrays = tensorflow.TensorArray
    inputs = arrays(x.dtype, size=steps).unstack(x)
    outputs = arrays(x.dtype, size=steps, element_shape=shape)
    states = []
    for state in initial:
        state = tensorflow.convert_to_tensor(state)
        state.set_shape(shape)
        states.append(state)

    def body(time, outputs, *before):
        after = step(inputs.read(time), *before, *weights)
        return (time + 1, outputs.write(time, after[0])) + tuple(after)

    end = tensorflow.while_loop(
        lambda time, *_: time < steps,
        body,
        (tensorflow.constant(0), outputs) + tuple(states),
        maximum_iterations=steps,
    )
    return end[1].stack(), list(end[2:])


def _lstm_cell(tensorflow):
    ops = tensorflow.raw_ops

    @tensorflow.custom_gradient
    def cell(x, hidden, memory, matrix, bias):
        """One step: (batch, inputs), two (batch, units) → new hidden state and memory."""
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

        def gradient(hidden_gradient, memory_gradient):
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
                input_gradients[:, inputs:],
                back.cs_prev_grad,
                matrix_gradient,
                tensorflow.reduce_sum(gates, 0),
            )

        return (new.h, new.cs), gradient

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
            back = ops.GRUBlockCellGrad(d_h=hidden_gradient, r=new.r, u=new.u, c=new.c, **arguments)
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
