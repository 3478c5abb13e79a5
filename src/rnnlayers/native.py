"""``native``: the framework's own recurrent functions without Keras's loop.

**torch.** ``torch.lstm``, ``torch.gru``, ``torch.rnn_tanh`` and ``torch.rnn_relu``, with views of
Keras's weights: torch wants one row for each gate and unit, gates i, f, g, o for LSTM (Keras's i,
f, c, o) and r, z, n for GRU (Keras's z, r, h, so that its rows are copied in another order). On a
CPU, the LSTM is oneDNN's over the whole sequence; on a GPU, all are cuDNN's.

**jax.** The inputs of all time steps are multiplied at once before a ``jax.lax.scan``; Keras's own
layer multiplies them inside the loop, step by step.
"""

from rnnlayers import refusals
from rnnlayers.sequences import cause_of_cell, check_mask, dropped
from rnnlayers.which_keras import keras_of

BACKENDS = ("torch", "jax")
COMPILED_ON = ("jax",)  # torch.compile fails in oneDNN's function
GATED = {"activation": ("tanh",), "recurrent_activation": ("sigmoid",)}
OF_TORCH = {"LSTM": GATED, "GRU": GATED, "SimpleRNN": {"activation": ("tanh", "relu")}}
OF_JAX = {"LSTM": {}, "GRU": {}, "SimpleRNN": {}}  # with any activation


def cause(keras, layer):
    """Why the framework cannot compute `layer`; None if it can."""
    if keras.backend == "jax":
        return cause_of_cell(keras, layer, OF_JAX)
    found = cause_of_cell(keras, layer, OF_TORCH)
    if found is None and not getattr(layer.cell, "reset_after", True):
        found = refusals.RESET_BEFORE
    return found


def methods(keras):
    return OfTorch if keras.backend == "torch" else OfJax


def _tensor(weight):
    """The tensor of a variable. A weight that an author's cell computes is a tensor itself."""
    return getattr(weight, "value", weight)


class OfTorch:
    def inner_loop(self, sequences, initial_state, mask, training=False):
        import torch

        check_mask(self, mask)
        cell = self.cell
        sequences = dropped(cell, sequences, training)
        if self.go_backwards:
            sequences = torch.flip(sequences, [1])
        states = [state[None].clone() for state in initial_state]  # a stateful layer sets its own
        gates = cell.kernel.shape[-1] // cell.units
        parameters = _parameters(torch, cell, gates)
        if gates == 4:
            function, start = torch.lstm, tuple(states)
        elif gates == 3:
            function, start = torch.gru, states[0]
        else:
            is_relu = keras_of(self).function(cell.activation) == "relu"
            function, start = torch.rnn_relu if is_relu else torch.rnn_tanh, states[0]
        outputs, *last = function(
            sequences,
            start,
            parameters,
            cell.use_bias,
            1,  # layers
            0.0,  # dropout between layers
            torch.is_grad_enabled(),  # cuDNN keeps what the gradient needs
            False,  # both directions
            True,  # batch first
        )
        return outputs[:, -1], outputs, [state[0] for state in last]


def _parameters(torch, cell, gates):
    """[weights of the inputs, of the state, both biases] in torch's order of gates."""
    found = [_tensor(cell.kernel).T, _tensor(cell.recurrent_kernel).T]
    if cell.use_bias:
        bias = _tensor(cell.bias)
        found += [bias[0], bias[1]] if bias.dim() == 2 else [bias, torch.zeros_like(bias)]
    if gates == 3:
        for place, rows in enumerate(found):
            z, r, n = torch.chunk(rows, 3)
            found[place] = torch.cat([r, z, n])
    return found


class OfJax:
    def inner_loop(self, sequences, initial_state, mask, training=False):
        import jax

        check_mask(self, mask)
        numpy = jax.numpy
        cell = self.cell
        sequences = dropped(cell, sequences, training)
        if self.go_backwards:
            sequences = numpy.flip(sequences, 1)
        projected = sequences @ _tensor(cell.kernel)
        if cell.use_bias:
            bias = _tensor(cell.bias)
            projected = projected + (bias[0] if bias.ndim == 2 else bias)
        step = _step(numpy, cell)

        def body(states, at_once):
            states = step(states, at_once)
            return states, states[0] if self.return_sequences else None

        states, hidden = jax.lax.scan(body, tuple(initial_state), numpy.swapaxes(projected, 0, 1))
        outputs = states[0][:, None]
        if self.return_sequences:
            outputs = numpy.swapaxes(hidden, 0, 1)
        return states[0], outputs, list(states)


def _step(numpy, cell):
    """The function of (states, x·W + b) that returns the next states, whose first is the output."""
    activation = cell.activation
    recurrent = _tensor(cell.recurrent_kernel)
    gates = recurrent.shape[-1] // cell.units
    if gates == 1:
        return lambda states, x: (activation(x + states[0] @ recurrent),)
    sigmoid = cell.recurrent_activation

    def lstm(states, x):
        hidden, memory = states
        i, f, c, o = numpy.split(x + hidden @ recurrent, 4, axis=1)
        memory = sigmoid(f) * memory + sigmoid(i) * activation(c)
        return sigmoid(o) * activation(memory), memory

    def gru(states, x):
        hidden = states[0]
        product = hidden @ recurrent
        if cell.use_bias:
            product = product + _tensor(cell.bias)[1]
        x_z, x_r, x_h = numpy.split(x, 3, axis=1)
        z, r, h = numpy.split(product, 3, axis=1)
        z = sigmoid(x_z + z)
        new = activation(x_h + sigmoid(x_r + r) * h)
        return (z * hidden + (1 - z) * new,)

    def gru_reset_before(states, x):
        hidden = states[0]
        of_gates = 2 * cell.units
        both = sigmoid(x[:, :of_gates] + hidden @ recurrent[:, :of_gates])
        z, r = numpy.split(both, 2, axis=1)
        new = activation(x[:, of_gates:] + (r * hidden) @ recurrent[:, of_gates:])
        return (z * hidden + (1 - z) * new,)

    if gates == 4:
        return lstm
    return gru if cell.reset_after else gru_reset_before
