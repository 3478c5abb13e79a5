"""``LSTMBlockCell`` and ``GRUBlockCell``: one fused op per time step, in a loop.

Source: TensorFlow's op definitions (rnn_ops.cc) and the gradients that tf.contrib registered for
them (tensorflow/contrib/rnn/python/ops/lstm_ops.py and gru_ops.py, 1.15): TensorFlow 2 has the
gradient ops and registers none, so they are called here in a custom gradient.

- LSTM: one matrix of (inputs + units) × 4·units, gates i, c, f, o. The op's defaults add 1 to the
  forget gate and clip the state at 3; here 0 and off (a clip of 0 or less is none).
- GRU: gates r, u in one matrix, the candidate in another; u is Keras's z. The reset gate multiplies
  the state before the product, so this is the cell ``gru_reset_before`` and not cuDNN's ``gru``.
"""

import numpy

from rnnworker.recurrent.cells import refuse
from rnnworker.recurrent.layer import layer_settings, sequence_layer

FORGET_BIAS = 0.0
CELL_CLIP = -1.0


def make(keras, cell, units, options):
    import tensorflow

    refuse("a block cell", cell, ("lstm", "gru_reset_before"), options)
    layers = {"lstm": _lstm_layer, "gru_reset_before": _gru_layer}
    return layers[cell](keras, tensorflow)(units, **layer_settings(options))


def to_canonical(layer, values=None):
    values = layer.get_weights() if values is None else values
    if len(values) == 2:
        both, bias = (_swapped(value, 4, (0, 2, 1, 3)) for value in values)
    else:
        gates, candidate, gates_bias, candidate_bias = values
        both = numpy.concatenate([_swapped(gates, 2, (1, 0)), candidate], axis=1)
        bias = numpy.concatenate([_swapped(gates_bias, 2, (1, 0)), candidate_bias])
    inputs = both.shape[0] - layer.units
    return {"kernel": both[:inputs], "recurrent": both[inputs:], "bias": bias}


def from_canonical(layer, arrays):
    both = numpy.concatenate([arrays["kernel"], arrays["recurrent"]], axis=0)
    bias, edge = arrays["bias"], 2 * layer.units
    if both.shape[1] == 4 * layer.units:
        layer.set_weights([_swapped(value, 4, (0, 2, 1, 3)) for value in (both, bias)])
        return
    gates, gates_bias = (_swapped(value[..., :edge], 2, (1, 0)) for value in (both, bias))
    layer.set_weights([gates, both[:, edge:], gates_bias, bias[edge:]])


def _swapped(value, gates, order):
    """`value` with its gates, side by side on the last axis, in another order."""
    parts = numpy.split(value, gates, axis=-1)
    return numpy.concatenate([parts[index] for index in order], axis=-1)


def _lstm_layer(keras, tensorflow):
    class BlockCellLSTM(sequence_layer(keras, tensorflow)):
        def make_weights(self, inputs):
            self.both = self.zeros("kernel", inputs + self.units, 4 * self.units)
            self.bias = self.zeros("bias", 4 * self.units)

        def hidden_states(self, sequence):
            both, bias = (tensorflow.convert_to_tensor(v) for v in (self.both, self.bias))
            cell = _lstm_cell(tensorflow)

            def step(states, x):
                memory, hidden = cell(x, states[0], states[1], both, bias)
                return memory, hidden

            return _looped(tensorflow, step, sequence, self.units, 2)

    return BlockCellLSTM


def _gru_layer(keras, tensorflow):
    class BlockCellGRU(sequence_layer(keras, tensorflow)):
        def make_weights(self, inputs):
            rows = inputs + self.units
            self.gates = self.zeros("gates_kernel", rows, 2 * self.units)
            self.candidate = self.zeros("candidate_kernel", rows, self.units)
            self.gates_bias = self.zeros("gates_bias", 2 * self.units)
            self.candidate_bias = self.zeros("candidate_bias", self.units)

        def hidden_states(self, sequence):
            names = ("gates", "candidate", "gates_bias", "candidate_bias")
            weights = [tensorflow.convert_to_tensor(getattr(self, name)) for name in names]
            cell = _gru_cell(tensorflow)

            def step(states, x):
                return (cell(x, states[0], *weights),)

            return _looped(tensorflow, step, sequence, self.units, 1)

    return BlockCellGRU


def _looped(tensorflow, step, sequence, units, states):
    """`step` over a (time, batch, features) sequence in a while loop, from zero states; the last
    of its states is the output. → (time, batch, units)"""
    shape = tensorflow.shape(sequence)
    arrays = tensorflow.TensorArray
    inputs = arrays(sequence.dtype, size=shape[0]).unstack(sequence)
    outputs = arrays(sequence.dtype, size=shape[0], element_shape=[sequence.shape[1], units])
    zeros = tensorflow.zeros([shape[1], units], sequence.dtype)
    zeros.set_shape([sequence.shape[1], units])

    def body(time, outputs, *before):
        after = step(before, inputs.read(time))
        return (time + 1, outputs.write(time, after[-1])) + tuple(after)

    start = (tensorflow.constant(0), outputs) + (zeros,) * states
    found = tensorflow.while_loop(
        lambda time, *_: time < shape[0], body, start, maximum_iterations=shape[0]
    )
    return found[1].stack()


def _lstm_cell(tensorflow):
    ops = tensorflow.raw_ops

    @tensorflow.custom_gradient
    def cell(x, memory, hidden, both, bias):
        """One step: (batch, inputs), two (batch, units) → new memory and hidden state."""
        peephole = tensorflow.zeros([bias.shape[0] // 4], x.dtype)
        given = {"x": x, "cs_prev": memory, "h_prev": hidden, "w": both, "b": bias}
        given.update(wci=peephole, wcf=peephole, wco=peephole, use_peephole=False)
        new = ops.LSTMBlockCell(forget_bias=FORGET_BIAS, cell_clip=CELL_CLIP, **given)

        def gradient(back_memory, back_hidden):
            kept = {name: getattr(new, name) for name in ("i", "cs", "f", "o", "ci", "co")}
            kept.update(cs_grad=back_memory, h_grad=back_hidden)
            back = ops.LSTMBlockCellGrad(**dict(given, **kept))
            gates = back.dicfo
            both_inputs = tensorflow.concat([x, hidden], 1)
            back_inputs = tensorflow.matmul(gates, both, transpose_b=True)
            inputs = int(both.shape[0]) - int(bias.shape[0]) // 4
            back_both = tensorflow.matmul(both_inputs, gates, transpose_a=True)
            return (
                back_inputs[:, :inputs],
                back.cs_prev_grad,
                back_inputs[:, inputs:],
                back_both,
                tensorflow.reduce_sum(gates, 0),
            )

        return (new.cs, new.h), gradient

    return cell


def _gru_cell(tensorflow):
    ops = tensorflow.raw_ops

    @tensorflow.custom_gradient
    def cell(x, hidden, gates, candidate, gates_bias, candidate_bias):
        """One step: (batch, inputs), (batch, units) → the new hidden state."""
        given = {"x": x, "h_prev": hidden, "w_ru": gates, "w_c": candidate}
        given.update(b_ru=gates_bias, b_c=candidate_bias)
        new = ops.GRUBlockCell(**given)

        def gradient(back_hidden):
            back = ops.GRUBlockCellGrad(d_h=back_hidden, r=new.r, u=new.u, c=new.c, **given)
            both = tensorflow.concat([x, hidden], 1)
            reset = tensorflow.concat([x, hidden * new.r], 1)
            return (
                back.d_x,
                back.d_h_prev,
                tensorflow.matmul(both, back.d_r_bar_u_bar, transpose_a=True),
                tensorflow.matmul(reset, back.d_c_bar, transpose_a=True),
                tensorflow.reduce_sum(back.d_r_bar_u_bar, 0),
                tensorflow.reduce_sum(back.d_c_bar, 0),
            )

        return new.h, gradient

    return cell
