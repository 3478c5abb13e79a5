"""The reference: the cells in float64 NumPy, forward and backward through time.

Written for clarity, not for speed, without any framework. Arrays are canonical (see
`canonical_weights`): ``kernel`` (inputs, gates·units), ``recurrent`` (units, gates·units), ``bias``
((gates·units,), for ``gru`` (2, gates·units): input and recurrent bias).

Let x be the input and h the output of a step, h' and c' the output and the cell state of the
previous step, σ the logistic function, and ∘ the element-wise product. Initial states are zero.

- ``lstm`` (Hochreiter & Schmidhuber 1997; forget gate: Gers et al. 2000; no peepholes), gates i, f,
  c, o:  a = x·W + h'·R + b;  c = σ(a_f) ∘ c' + σ(a_i) ∘ tanh(a_c);  h = σ(a_o) ∘ tanh(c)
- ``gru`` (Cho et al. 2014, version 1 of arXiv 1406.1078; as in cuDNN), gates z, r, h:
  p = x·W + b_1;  q = h'·R + b_2;  z = σ(p_z + q_z);  r = σ(p_r + q_r);  n = tanh(p_h + r ∘ q_h);
  h = z ∘ h' + (1 − z) ∘ n
- ``gru_reset_before`` (Cho et al. 2014, version 3), gates z, r, h:
  z, r = σ(x·W_zr + h'·R_zr + b_zr);  n = tanh(x·W_h + (r ∘ h')·R_h + b_h);
  h = z ∘ h' + (1 − z) ∘ n
- ``rnn_tanh``, ``rnn_relu`` (Elman 1990):  h = tanh or max(0, ·) of x·W + h'·R + b

A layer's option ``activation`` replaces tanh (in ``rnn_relu``, max(0, ·)), and its option
``recurrent_activation`` replaces σ. With ``go_backwards`` a layer reads its inputs from the last to
the first, and its outputs are in this order.
"""

from typing import Callable, Dict, Iterable, List, Mapping, Optional, Tuple

import numpy

from rnnworker import canonical_weights
from rnnworker.canonical_weights import Arrays
from rnnworker.json_types import Json

Array = numpy.ndarray
Function = Json  # what a layer computes, as `function_of` returns it
# Of a layer: the gradient of its outputs → those of ``x`` and of its arrays.
LayerBack = Callable[[Array], Arrays]
States = Tuple[Array, ...]  # of a cell, its output first
# Of a time step: the gradients of the new states → that of x·W + b, and those of the old states.
StepBack = Callable[..., Tuple[Array, States]]
# A function, and its derivative as a function of its value.
Activation = Tuple[Callable[[Array], Array], Callable[[Array], Array]]

PLAIN = {"activation": "tanh", "recurrent_activation": "sigmoid"}


class UnknownFunction(ValueError):
    """The reference does not implement the requested function."""


def function_of(cell: str, options: Mapping[str, object], keras_3: bool) -> Function:
    """Returns the function that a layer with these `options` computes: ``{"activation",
    "recurrent_activation", "use_bias", "go_backwards"}``. Raises `UnknownFunction` if the reference
    lacks an activation. In Keras 3 hard_sigmoid has slope 1/6, in Keras 2 it has 1/5."""
    function: Function = dict(PLAIN)
    if cell == "rnn_relu":
        function["activation"] = "relu"
    if cell.startswith("rnn_"):
        del function["recurrent_activation"]
    version = 3 if keras_3 else 2
    for name in sorted(function):
        activation = options.get(name, function[name])
        if activation is None:
            activation = "linear"
        if activation == "hard_sigmoid":
            activation = "hard_sigmoid of Keras {}".format(version)
        if not isinstance(activation, str) or activation not in ACTIVATIONS:
            known = ", ".join(sorted(ACTIVATIONS))
            shown = activation
            if not isinstance(activation, str):
                shown = getattr(activation, "__name__", type(activation).__name__)
            message = "the float64 reference has no {} {}, only {}".format(name, shown, known)
            raise UnknownFunction(message)
        function[name] = activation
    function.setdefault("recurrent_activation", None)
    function["use_bias"] = bool(options.get("use_bias", True))
    function["go_backwards"] = bool(options.get("go_backwards", False))
    return function


def combined(functions: Iterable[Function]) -> Json:
    """Returns the settings that separate functions of a model's recurrent layers, of which each has
    its function in `functions`: a value, or the different values of its layers, as text."""
    settings: Json = {}
    for name in ("activation", "recurrent_activation", "use_bias"):
        values: List[object] = []
        for function in functions:
            if function[name] not in values:
                values.append(function[name])
        if len(values) == 1:
            settings[name] = values[0]
        else:
            settings[name] = ", ".join(map(str, values))
    return settings


def run(
    cell: str,
    x: Array,
    arrays: Mapping[str, Array],
    output_gradient: Array,
    function: Optional[Function] = None,
) -> Tuple[Array, Arrays]:
    """Returns the outputs of a layer and the gradients of sum(outputs ∘ output_gradient): (outputs,
    shaped like `output_gradient`; gradients of ``x`` and of each array).

    **Arguments:**

    - `cell`: ``lstm``, ``gru``, ``gru_reset_before``, ``rnn_tanh`` or ``rnn_relu``.
    - `x`: (batch, time, inputs).
    - `arrays`: canonical; without ``bias`` if the layer has none.
    - `output_gradient`: (batch, time, units) for all steps, (batch, units) for the last step;
      twice the units for a bidirectional layer, forward first.
    - `function`: from `function_of`; None is the cell as defined above.
    """
    upstream = numpy.asarray(output_gradient, "float64")
    exact = {name: numpy.asarray(array, "float64") for name, array in arrays.items()}
    if function is None:
        function = function_of(cell, {}, True)
    returns_sequences = upstream.ndim == 3
    inputs = numpy.asarray(x, "float64")
    outputs, back = _forward(cell, inputs, exact, function, returns_sequences)
    return outputs, back(upstream)


def _forward(
    cell: str, x: Array, arrays: Arrays, function: Function, sequences: bool
) -> Tuple[Array, LayerBack]:
    """(outputs of a layer, its backward step): of all time steps if `sequences`, else of the last
    one. The backward step maps the gradient of the outputs to those of ``x`` and of each array."""
    parts = canonical_weights.split(arrays)
    if "forward_" in parts:
        return _both_directions(cell, x, parts, function, sequences)
    if parts:
        return _stack(cell, x, parts, function, sequences)
    return _one_direction(cell, x, arrays, function, sequences)


def _both_directions(
    cell: str, x: Array, parts: Dict[str, Arrays], function: Function, sequences: bool
) -> Tuple[Array, LayerBack]:
    reverse = dict(function, go_backwards=True)
    first, back_first = _forward(cell, x, parts["forward_"], function, sequences)
    second, back_second = _forward(cell, x, parts["backward_"], reverse, sequences)
    outputs = numpy.concatenate([first, _in_reverse(second)], axis=-1)

    def back(upstream: Array) -> Arrays:
        of_first, of_second = numpy.split(upstream, 2, axis=-1)
        of_forward = back_first(of_first)
        of_backward = back_second(_in_reverse(of_second))
        of_x = of_forward.pop("x") + of_backward.pop("x")
        gradients = canonical_weights.join(parts, [of_forward, of_backward])
        gradients["x"] = of_x
        return gradients

    return outputs, back


def _in_reverse(array: Array) -> Array:
    """A sequence with its time steps in reverse order; the last step's array as it is."""
    if array.ndim == 3:
        return array[:, ::-1]
    return array


def _stack(
    cell: str, x: Array, parts: Dict[str, Arrays], function: Function, sequences: bool
) -> Tuple[Array, LayerBack]:
    steps_back: List[LayerBack] = []
    outputs = x
    for number, arrays in enumerate(parts.values(), 1):
        is_inner = number < len(parts)
        outputs, back_layer = _forward(cell, outputs, arrays, function, sequences or is_inner)
        steps_back.append(back_layer)

    def back(upstream: Array) -> Arrays:
        of_layers: List[Arrays] = []
        for back_layer in reversed(steps_back):
            gradients = back_layer(upstream)
            upstream = gradients.pop("x")
            of_layers.insert(0, gradients)
        gradients = canonical_weights.join(parts, of_layers)
        gradients["x"] = upstream
        return gradients

    return outputs, back


def _one_direction(
    cell: str, x: Array, arrays: Arrays, function: Function, sequences: bool
) -> Tuple[Array, LayerBack]:
    if function["go_backwards"]:
        x = _in_reverse(x)
    step, number_of_states = CELLS[cell]
    layer = _Layer(cell, arrays, function)
    batch, times, _ = x.shape
    units = len(layer.recurrent)
    projected = x @ arrays["kernel"] + layer.bias
    zeros = (numpy.zeros((batch, units)),) * number_of_states
    state: States = zeros
    outputs: List[Array] = []
    steps_back: List[StepBack] = []
    for time in range(times):
        state, step_back = step(layer, projected[:, time], state)
        outputs.append(state[0])
        steps_back.append(step_back)

    def back(upstream: Array) -> Arrays:
        if not sequences:
            of_last = upstream
            upstream = numpy.zeros((batch, times, units))
            upstream[:, -1] = of_last
        gradient: States = zeros
        of_projected = numpy.empty_like(projected)
        for time in reversed(range(times)):
            of_hidden = gradient[0] + upstream[:, time]
            of_projected[:, time], gradient = steps_back[time](of_hidden, *gradient[1:])
        of_x = of_projected @ arrays["kernel"].T
        if function["go_backwards"]:
            of_x = _in_reverse(of_x)
        of_bias = of_projected.sum(axis=(0, 1))
        if cell == "gru":
            of_bias = numpy.stack([of_bias, layer.of_second_bias])
        found = {
            "x": of_x,
            "kernel": numpy.tensordot(x, of_projected, ((0, 1), (0, 1))),
            "recurrent": layer.of_recurrent,
            "bias": of_bias,
        }
        return {name: found[name] for name in ("x", *arrays)}

    if sequences:
        return numpy.stack(outputs, axis=1), back
    return outputs[-1], back


class _Layer:
    """What the steps of a layer share: its ``recurrent`` array and its biases, its activations and
    their derivatives, and the gradients that the steps have added up so far."""

    def __init__(self, cell: str, arrays: Arrays, function: Function) -> None:
        self.recurrent = arrays["recurrent"]
        # An LSTM or a simple cell has no second bias, and adds none.
        self.bias, self.second_bias = numpy.zeros((2, self.recurrent.shape[1]))
        if cell == "gru" and "bias" in arrays:
            self.bias, self.second_bias = arrays["bias"]
        elif "bias" in arrays:
            self.bias = arrays["bias"]
        self.squash, self.of_squash = ACTIVATIONS[function["activation"]]
        # A simple cell has no gates.
        self.gate, self.of_gate = ACTIVATIONS[function["recurrent_activation"] or "linear"]
        self.of_recurrent = numpy.zeros_like(self.recurrent)
        self.of_second_bias = numpy.zeros_like(self.second_bias)


def _hard_sigmoid(slope: float) -> Activation:
    return (
        lambda value: numpy.clip(slope * value + 0.5, 0.0, 1.0),
        lambda out: slope * ((out > 0) & (out < 1)),
    )


ACTIVATIONS: Dict[str, Activation] = {
    "tanh": (numpy.tanh, lambda out: 1 - out**2),
    "sigmoid": (lambda value: 0.5 * (1.0 + numpy.tanh(0.5 * value)), lambda out: out * (1 - out)),
    "relu": (lambda value: numpy.maximum(value, 0), lambda out: (out > 0) * 1.0),
    "linear": (lambda value: value, numpy.ones_like),
    "elu": (
        lambda value: numpy.where(value > 0, value, numpy.expm1(numpy.minimum(value, 0))),
        lambda out: numpy.where(out > 0, 1.0, out + 1.0),
    ),
    "softplus": (lambda value: numpy.logaddexp(value, 0), lambda out: 1.0 - numpy.exp(-out)),
    "softsign": (lambda value: value / (1 + abs(value)), lambda out: (1 - abs(out)) ** 2),
    "exponential": (numpy.exp, lambda out: out),
    # Keras 2: 0.2 x + 0.5; Keras 3: relu6(x + 3) / 6.
    "hard_sigmoid of Keras 2": _hard_sigmoid(1 / 5),
    "hard_sigmoid of Keras 3": _hard_sigmoid(1 / 6),
}


# A step of a cell takes its layer, x·W + b, and the previous states. It returns the new states, the
# output first, and its backward step: a function of the gradients of the new states. That function
# adds to the gradients in the layer, and returns the gradient of x·W + b and those of the previous
# states.


def _lstm(layer: _Layer, projected: Array, state: States) -> Tuple[States, StepBack]:
    hidden, memory = state
    gates = projected + hidden @ layer.recurrent
    i, f, c, o = numpy.split(gates, 4, axis=1)
    i = layer.gate(i)
    f = layer.gate(f)
    c = layer.squash(c)
    o = layer.gate(o)
    new = f * memory + i * c
    squashed = layer.squash(new)

    def back(grad_hidden: Array, grad_new: Array) -> Tuple[Array, States]:
        grad_new = grad_new + grad_hidden * o * layer.of_squash(squashed)
        grad_i = grad_new * c * layer.of_gate(i)
        grad_f = grad_new * memory * layer.of_gate(f)
        grad_c = grad_new * i * layer.of_squash(c)
        grad_o = grad_hidden * squashed * layer.of_gate(o)
        grad_gates = numpy.concatenate([grad_i, grad_f, grad_c, grad_o], axis=1)
        layer.of_recurrent += hidden.T @ grad_gates
        grad_before = grad_gates @ layer.recurrent.T
        return grad_gates, (grad_before, grad_new * f)

    return (o * squashed, new), back


def _gru(layer: _Layer, projected: Array, state: States) -> Tuple[States, StepBack]:
    (hidden,) = state
    p_z, p_r, p_h = numpy.split(projected, 3, axis=1)
    q = hidden @ layer.recurrent + layer.second_bias
    q_z, q_r, q_h = numpy.split(q, 3, axis=1)
    z = layer.gate(p_z + q_z)
    r = layer.gate(p_r + q_r)
    n = layer.squash(p_h + r * q_h)

    def back(grad_hidden: Array) -> Tuple[Array, States]:
        grad_n = grad_hidden * (1 - z) * layer.of_squash(n)
        grad_z = grad_hidden * (hidden - n) * layer.of_gate(z)
        grad_r = grad_n * q_h * layer.of_gate(r)
        grad_p = numpy.concatenate([grad_z, grad_r, grad_n], axis=1)
        grad_q = numpy.concatenate([grad_z, grad_r, grad_n * r], axis=1)
        layer.of_recurrent += hidden.T @ grad_q
        layer.of_second_bias += grad_q.sum(axis=0)
        grad_before = grad_hidden * z + grad_q @ layer.recurrent.T
        return grad_p, (grad_before,)

    return (z * hidden + (1 - z) * n,), back


def _gru_reset_before(layer: _Layer, projected: Array, state: States) -> Tuple[States, StepBack]:
    (hidden,) = state
    gates = 2 * hidden.shape[1]
    recurrent_zr = layer.recurrent[:, :gates]
    recurrent_h = layer.recurrent[:, gates:]
    both = layer.gate(projected[:, :gates] + hidden @ recurrent_zr)
    z, r = numpy.split(both, 2, axis=1)
    reset = r * hidden
    n = layer.squash(projected[:, gates:] + reset @ recurrent_h)

    def back(grad_hidden: Array) -> Tuple[Array, States]:
        grad_n = grad_hidden * (1 - z) * layer.of_squash(n)
        grad_z = grad_hidden * (hidden - n) * layer.of_gate(z)
        grad_reset = grad_n @ recurrent_h.T
        grad_r = grad_reset * hidden * layer.of_gate(r)
        grad_zr = numpy.concatenate([grad_z, grad_r], axis=1)
        layer.of_recurrent[:, :gates] += hidden.T @ grad_zr
        layer.of_recurrent[:, gates:] += reset.T @ grad_n
        grad_before = grad_hidden * z + grad_reset * r + grad_zr @ recurrent_zr.T
        grad_projected = numpy.concatenate([grad_zr, grad_n], axis=1)
        return grad_projected, (grad_before,)

    return (z * hidden + (1 - z) * n,), back


def _rnn(layer: _Layer, projected: Array, state: States) -> Tuple[States, StepBack]:
    (hidden,) = state
    new = layer.squash(projected + hidden @ layer.recurrent)

    def back(grad_hidden: Array) -> Tuple[Array, States]:
        grad = grad_hidden * layer.of_squash(new)
        layer.of_recurrent += hidden.T @ grad
        grad_before = grad @ layer.recurrent.T
        return grad, (grad_before,)

    return (new,), back


# Cell → its step, and its number of states.
Step = Callable[[_Layer, Array, States], Tuple[States, StepBack]]
CELLS: Dict[str, Tuple[Step, int]] = {
    "lstm": (_lstm, 2),
    "gru": (_gru, 1),
    "gru_reset_before": (_gru_reset_before, 1),
    "rnn_tanh": (_rnn, 1),
    "rnn_relu": (_rnn, 1),
}
