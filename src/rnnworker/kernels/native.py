"""The framework's own recurrent layer without Keras's loop: ``torch.nn.LSTM``, ``GRU`` and ``RNN``
in Keras 3 on torch, rnnbench's cells in ``jax.lax.scan`` in Keras 3 on jax, as in programs that use
jax without Keras. Neither supports dropout inside the cell or masks.

**torch.** Keras trains torch's own parameters. Source of their format: torch's documentation of
these classes: one row per gate and unit, gates i, f, g, o for LSTM (Keras's i, f, c, o); r, z, n
for GRU, whose canonical order is z, r, h. Each class adds two biases, ``bias_ih`` and ``bias_hh``.
A GRU that resets after the product has two biases in canonical form too, and both are trained. In
the other cells ``bias_hh`` is zero and not trained (`cudnn_layout` says why), and Keras counts
gates·units more parameters. On a CPU, the LSTM is oneDNN's over the whole sequence, forward and
backward, and GRU and RNN are torch's own loop in C++ over single ops; on a GPU, all are cuDNN's.

**jax.** The inputs of all time steps are multiplied at once before the loop; Keras's own layer
multiplies them inside the loop, step by step. The equations are those of ``reference``; initial
states are zero.
"""

import contextlib

from rnnworker.canonical_weights import GATES
from rnnworker.recurrent import cells, cudnn_layout
from rnnworker.recurrent.layer import layer_settings, recurrent_layer

# Cell → class in torch.nn, its settings. Its gates are in cuDNN's order.
TORCH = {
    "lstm": ("LSTM", {}),
    "gru": ("GRU", {}),
    "rnn_tanh": ("RNN", {"nonlinearity": "tanh"}),
    "rnn_relu": ("RNN", {"nonlinearity": "relu"}),
}


def make(keras, cell, units, options):
    """The layer of the framework of this Keras. Raises ValueError on TensorFlow."""
    backend = keras.backend.backend()
    if backend not in ("torch", "jax"):
        raise ValueError("rnn=native needs Keras 3 on torch or jax; this Keras is on " + backend)
    if backend == "torch":
        cells.supported("torch.nn", cell, sorted(TORCH), options)
        layer_class = _torch_layer(keras, cell)
    else:
        cells.supported("the scan", cell, sorted(GATES), options)
        layer_class = _jax_layer(keras, cell)
    return layer_class(units, **layer_settings(options))


def torch_layout(cell):
    """The layout of [weight_ih, weight_hh, bias_ih, bias_hh], but for transposed matrices."""
    layout = cudnn_layout.layout(cell)
    if cell == "gru":
        return layout
    return layout + (("frozen", cudnn_layout.ORDERS[cell]),)


def _torch_layer(keras, cell):
    import torch

    name, settings = TORCH[cell]

    class TorchNative(recurrent_layer(keras)):
        states = 2 if cell == "lstm" else 1

        def make_weights(self, inputs):
            make_module = getattr(torch.nn, name)
            module = make_module(inputs, self.units, batch_first=True, **settings)
            if cell != "gru":
                torch.nn.init.zeros_(module.bias_hh_l0)
                module.bias_hh_l0.requires_grad_(False)
            # On assignment Keras wraps the module and adds its parameters to the layer's weights.
            self.wrapped = module

        def outputs(self, inputs):
            outputs, _ = self.outputs_and_last(inputs)
            return outputs

        def outputs_and_states(self, inputs, initial):
            # torch takes and returns a pair of states, or one state, each (1, batch, units).
            if initial is not None:
                initial = tuple(state[None].contiguous() for state in initial)
                if self.states == 1:
                    initial = initial[0]
            outputs, last = self.outputs_and_last(inputs, initial)
            if self.states == 1:
                return outputs, [last[0]]
            return outputs, [state[0] for state in last]

        def outputs_and_last(self, inputs, initial=None):
            if self.go_backwards:
                inputs = torch.flip(inputs, [1])
            with self.casting(inputs):
                hidden, last = self.wrapped.module(inputs, initial)
            if not self.return_sequences:
                hidden = hidden[:, -1]
            return hidden, last

        def casting(self, inputs):
            """Keras casts only its own variables; torch's ``autocast`` casts torch's parameters."""
            if inputs.dtype not in (torch.float16, torch.bfloat16):
                return contextlib.nullcontext()
            return torch.autocast(inputs.device.type, inputs.dtype)

        def pack(self, arrays):
            values = cells.pack(torch_layout(cell), arrays)
            return [value.T for value in values]

        def unpack(self, values):
            values = [value.T for value in values]
            return cells.unpack(torch_layout(cell), values, self.units)

    return TorchNative


def _jax_layer(keras, cell):
    import jax

    class JaxNative(recurrent_layer(keras)):
        use_cudnn = False  # for `attest` on a GPU
        states = 2 if cell == "lstm" else 1

        def make_weights(self, inputs):
            columns = GATES[cell] * self.units
            kernel = self.zeros("kernel", inputs, columns)
            recurrent = self.zeros("recurrent", self.units, columns)
            if cell == "gru":
                bias = self.zeros("bias", 2, columns)
            else:
                bias = self.zeros("bias", columns)
            self.arrays = [kernel, recurrent, bias]

        def outputs(self, inputs):
            outputs, _ = self.outputs_and_states(inputs, None)
            return outputs

        def outputs_and_states(self, inputs, initial):
            if self.go_backwards:
                inputs = jax.numpy.flip(inputs, 1)
            values = [variable.value for variable in self.arrays]
            arrays = dict(zip(cells.ARRAYS, values))
            return scan_cell(cell, inputs, arrays, self.return_sequences, initial)

    return JaxNative


def scan_cell(cell, x, arrays, sequences, initial=None):
    """The layer as a function of `x` (batch, time, inputs) and canonical `arrays`, from the states
    `initial`, each (batch, units), or None for zeros. Returns (the outputs of all steps (batch,
    time, units) if `sequences`, else the last one (batch, units); the last states)."""
    import jax

    numpy = jax.numpy
    recurrent = arrays["recurrent"]
    bias = arrays["bias"]
    recurrent_bias = None
    if cell == "gru":
        bias, recurrent_bias = bias
    projected = x @ arrays["kernel"] + bias
    projected = numpy.swapaxes(projected, 0, 1)

    if initial is None:
        shape = (x.shape[0], recurrent.shape[0])
        zeros = numpy.zeros(shape, projected.dtype)
        initial = (zeros, zeros) if cell == "lstm" else (zeros,)
    step = _steps(jax)[cell]

    def body(state, at_once):
        state = step(state, at_once, recurrent, recurrent_bias)
        if not sequences:
            return state, None
        return state, state[0]

    state, hidden = jax.lax.scan(body, tuple(initial), projected)
    if not sequences:
        return state[0], state
    return numpy.swapaxes(hidden, 0, 1), state


def _steps(jax):
    """Cell → function of (state, x·W + b, R, second bias) that returns the next state, whose first
    part is the output."""
    numpy = jax.numpy
    sigmoid = jax.nn.sigmoid

    def lstm(state, projected, recurrent, _):
        hidden, memory = state
        gates = projected + hidden @ recurrent
        i, f, c, o = numpy.split(gates, 4, axis=1)
        memory = sigmoid(f) * memory + sigmoid(i) * numpy.tanh(c)
        return sigmoid(o) * numpy.tanh(memory), memory

    def gru(state, projected, recurrent, bias):
        (hidden,) = state
        p_z, p_r, p_h = numpy.split(projected, 3, axis=1)
        q = hidden @ recurrent + bias
        q_z, q_r, q_h = numpy.split(q, 3, axis=1)
        z = sigmoid(p_z + q_z)
        r = sigmoid(p_r + q_r)
        new = numpy.tanh(p_h + r * q_h)
        return (z * hidden + (1 - z) * new,)

    def gru_reset_before(state, projected, recurrent, _):
        (hidden,) = state
        gates = 2 * hidden.shape[1]
        both = sigmoid(projected[:, :gates] + hidden @ recurrent[:, :gates])
        z, r = numpy.split(both, 2, axis=1)
        reset = r * hidden
        new = numpy.tanh(projected[:, gates:] + reset @ recurrent[:, gates:])
        return (z * hidden + (1 - z) * new,)

    def simple(activation):
        def step(state, projected, recurrent, _):
            (hidden,) = state
            return (activation(projected + hidden @ recurrent),)

        return step

    return {
        "lstm": lstm,
        "gru": gru,
        "gru_reset_before": gru_reset_before,
        "rnn_tanh": simple(numpy.tanh),
        "rnn_relu": simple(jax.nn.relu),
    }
