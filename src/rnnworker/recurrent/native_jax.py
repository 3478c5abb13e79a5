"""Cells written by hand in ``jax.lax.scan``, as in programs that use jax without Keras.

The inputs of all time steps are multiplied at once before the loop; Keras's own layer multiplies
them inside the loop, step by step. The equations are those of ``reference``; initial states are
zero.
"""

from rnnworker.canonical_weights import GATES
from rnnworker.recurrent.cells import ARRAYS
from rnnworker.recurrent.layer import recurrent_layer

NAME = "the scan"
CELLS = tuple(sorted(GATES))


def scan_cell(cell, x, arrays, sequences):
    """The layer as a function.

    **Arguments:**

    - `x`: (batch, time, inputs).
    - `arrays`: canonical.
    - `sequences`: whether to return the outputs of all steps.

    **Returns** (batch, time, units), or the last step's (batch, units).
    """
    import jax

    recurrent, bias = arrays["recurrent"], arrays["bias"]
    first, second = bias if cell == "gru" else (bias, None)
    projected = jax.numpy.swapaxes(x @ arrays["kernel"] + first, 0, 1)
    zeros = jax.numpy.zeros((x.shape[0], recurrent.shape[0]), projected.dtype)
    step = _steps(jax)[cell]

    def body(state, at_once):
        state = step(state, at_once, recurrent, second)
        return state, state[0] if sequences else None

    start = (zeros, zeros) if cell == "lstm" else (zeros,)
    state, hidden = jax.lax.scan(body, start, projected)
    return jax.numpy.swapaxes(hidden, 0, 1) if sequences else state[0]


def layer_class(keras, cell):
    """The class of Keras layers that run `scan_cell` for `cell`."""
    import jax

    class JaxNative(recurrent_layer(keras)):
        use_cudnn = False  # for `attest` on a GPU

        def make_weights(self, inputs):
            columns = GATES[cell] * self.units
            bias = (2, columns) if cell == "gru" else (columns,)
            shapes = ((inputs, columns), (self.units, columns), bias)
            self.arrays = [self.zeros(name, *shape) for name, shape in zip(ARRAYS, shapes)]

        def outputs(self, inputs):
            if self.go_backwards:
                inputs = jax.numpy.flip(inputs, 1)
            values = self.unpack([variable.value for variable in self.arrays])
            return scan_cell(cell, inputs, values, self.return_sequences)

        def pack(self, arrays):
            return [arrays[name] for name in ARRAYS]

        def unpack(self, values):
            return dict(zip(ARRAYS, values))

    return JaxNative


def _steps(jax):
    """Cell → function of (state, x·W + b, R, second bias) that returns the next state, whose first
    part is the output."""
    numpy, sigmoid = jax.numpy, jax.nn.sigmoid

    def lstm(state, projected, recurrent, _):
        hidden, memory = state
        i, f, c, o = numpy.split(projected + hidden @ recurrent, 4, axis=1)
        memory = sigmoid(f) * memory + sigmoid(i) * numpy.tanh(c)
        return sigmoid(o) * numpy.tanh(memory), memory

    def gru(state, projected, recurrent, bias):
        (hidden,) = state
        p_z, p_r, p_h = numpy.split(projected, 3, axis=1)
        q_z, q_r, q_h = numpy.split(hidden @ recurrent + bias, 3, axis=1)
        z = sigmoid(p_z + q_z)
        new = numpy.tanh(p_h + sigmoid(p_r + q_r) * q_h)
        return (z * hidden + (1 - z) * new,)

    def gru_reset_before(state, projected, recurrent, _):
        (hidden,) = state
        gates = 2 * hidden.shape[1]
        both = sigmoid(projected[:, :gates] + hidden @ recurrent[:, :gates])
        z, r = numpy.split(both, 2, axis=1)
        new = numpy.tanh(projected[:, gates:] + (r * hidden) @ recurrent[:, gates:])
        return (z * hidden + (1 - z) * new,)

    def simple(activation):
        def step(state, projected, recurrent, _):
            return (activation(projected + state[0] @ recurrent),)

        return step

    return {
        "lstm": lstm,
        "gru": gru,
        "gru_reset_before": gru_reset_before,
        "rnn_tanh": simple(numpy.tanh),
        "rnn_relu": simple(jax.nn.relu),
    }
