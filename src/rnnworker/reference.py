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

import numpy

from rnnworker import canonical_weights

PLAIN = {"activation": "tanh", "recurrent_activation": "sigmoid"}
FLAGS = ("use_bias", "go_backwards")


class UnknownFunction(ValueError):
    """The reference does not implement the requested function."""


def function_of(cell, options, keras_3):
    """Returns the function that a layer with these `options` computes: ``{"activation",
    "recurrent_activation", "use_bias", "go_backwards"}``. Raises `UnknownFunction` if the reference
    lacks an activation. In Keras 3 hard_sigmoid has slope 1/6, in Keras 2 it has 1/5."""
    function = dict(PLAIN, activation="relu" if cell == "rnn_relu" else "tanh")
    if cell.startswith("rnn_"):
        del function["recurrent_activation"]
    for name in sorted(function):
        activation = options.get(name, function[name])
        if activation is None:
            activation = "linear"
        if activation == "hard_sigmoid":
            activation = "hard_sigmoid of Keras " + ("3" if keras_3 else "2")
        if not isinstance(activation, str) or activation not in ACTIVATIONS:
            known = ", ".join(sorted(ACTIVATIONS))
            shown = getattr(activation, "__name__", activation)
            message = "the float64 reference has no {} {}, only {}".format(name, shown, known)
            raise UnknownFunction(message)
        function[name] = activation
    function.setdefault("recurrent_activation", None)
    flags = {name: bool(options.get(name, name == "use_bias")) for name in FLAGS}
    return dict(function, **flags)


def combined(functions):
    """Returns the settings that separate functions of a model's recurrent layers, of which each has
    its function in `functions`: a value, or the different values of its layers, as text."""
    settings = {}
    for name in ("activation", "recurrent_activation", "use_bias"):
        values = []
        for function in functions:
            if function[name] not in values:
                values.append(function[name])
        settings[name] = values[0] if len(values) == 1 else ", ".join(map(str, values))
    return settings


def run(cell, x, arrays, output_gradient, function=None):
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
    x, upstream = numpy.asarray(x, "float64"), numpy.asarray(output_gradient, "float64")
    arrays = {name: numpy.asarray(array, "float64") for name, array in arrays.items()}
    parts = canonical_weights.split(arrays)
    if function and function["go_backwards"]:
        onwards = dict(function, go_backwards=False)
        outputs, gradients = run(cell, x[:, ::-1], arrays, upstream, onwards)
        return outputs, dict(gradients, x=gradients["x"][:, ::-1])
    if "forward_" in parts:
        return _both_directions(cell, x, parts, upstream, function)
    return (_stack if parts else _one_direction)(cell, x, parts or arrays, upstream, function)


def _both_directions(cell, x, parts, upstream, function):
    first, second = numpy.split(upstream, 2, axis=-1)
    forward = run(cell, x, parts["forward_"], first, function)
    backward = run(cell, x[:, ::-1], parts["backward_"], _in_reverse(second), function)
    gradients = [forward[1], backward[1]]
    from_x, from_reversed = (found.pop("x") for found in gradients)
    joined = canonical_weights.join(parts, gradients)
    outputs = numpy.concatenate([forward[0], _in_reverse(backward[0])], axis=-1)
    return outputs, dict(joined, x=from_x + from_reversed[:, ::-1])


def _in_reverse(array):
    """A sequence with its time steps in reverse order; the last step's array as it is."""
    return array[:, ::-1] if array.ndim == 3 else array


def _stack(cell, x, parts, upstream, function):
    layers, inputs = list(parts.values()), [x]
    for arrays in layers[:-1]:
        nothing = numpy.zeros(x.shape[:2] + upstream.shape[-1:])
        inputs.append(run(cell, inputs[-1], arrays, nothing, function)[0])
    results = []
    for below, arrays in zip(reversed(inputs), reversed(layers)):
        results.append(run(cell, below, arrays, upstream, function))
        upstream = results[-1][1].pop("x")
    gradients = canonical_weights.join(parts, [found for _, found in reversed(results)])
    return results[0][0], dict(gradients, x=upstream)


def _one_direction(cell, x, arrays, upstream, function):
    step, states = CELLS[cell]
    function = function or function_of(cell, {}, True)
    activations = [
        ACTIVATIONS.get(function[name]) for name in ("activation", "recurrent_activation")
    ]
    (batch, times, _), (units, columns) = x.shape, arrays["recurrent"].shape
    given = set(arrays)
    no_bias = numpy.zeros((2, columns) if cell == "gru" else columns)
    arrays = dict({"bias": no_bias}, **arrays)
    gradients = {name: numpy.zeros_like(array) for name, array in arrays.items()}
    # The first row of a GRU's bias, the whole bias of another cell.
    bias, bias_gradient = (numpy.atleast_2d(each["bias"])[0] for each in (arrays, gradients))
    projected = x @ arrays["kernel"] + bias
    state = gradient = (numpy.zeros((batch, units)),) * states
    outputs, steps_back = [], []
    for time in range(times):
        state, back = step(projected[:, time], state, arrays, gradients, *activations)
        outputs.append(state[0])
        steps_back.append(back)
    of_projected = numpy.empty_like(projected)
    for time in reversed(range(times)):
        arrived = upstream[:, time] if upstream.ndim == 3 else (time == times - 1) * upstream
        of_projected[:, time], gradient = steps_back[time](gradient[0] + arrived, *gradient[1:])
    gradients["kernel"] = numpy.tensordot(x, of_projected, ((0, 1), (0, 1)))
    bias_gradient += of_projected.sum(axis=(0, 1))
    gradients = {name: gradients[name] for name in given}
    gradients["x"] = of_projected @ arrays["kernel"].T
    return numpy.stack(outputs, axis=1) if upstream.ndim == 3 else outputs[-1], gradients


def _sigmoid(value):
    return 0.5 * (1.0 + numpy.tanh(0.5 * value))


def _elu(value):
    return numpy.where(value > 0, value, numpy.expm1(numpy.minimum(value, 0)))


def _hard_sigmoid(slope):
    return (
        lambda value: numpy.clip(slope * value + 0.5, 0.0, 1.0),
        lambda out: slope * ((out > 0) & (out < 1)),
    )


# Name → the function, and its derivative as a function of its value.
ACTIVATIONS = {
    "tanh": (numpy.tanh, lambda out: 1 - out**2),
    "sigmoid": (_sigmoid, lambda out: out * (1 - out)),
    "relu": (lambda value: numpy.maximum(value, 0), lambda out: (out > 0) * 1.0),
    "linear": (lambda value: value, numpy.ones_like),
    "elu": (_elu, lambda out: numpy.where(out > 0, 1.0, out + 1.0)),
    "softplus": (lambda value: numpy.logaddexp(value, 0), lambda out: 1.0 - numpy.exp(-out)),
    "softsign": (lambda value: value / (1 + abs(value)), lambda out: (1 - abs(out)) ** 2),
    "exponential": (numpy.exp, lambda out: out),
    # Keras 2: 0.2 x + 0.5; Keras 3: relu6(x + 3) / 6.
    "hard_sigmoid of Keras 2": _hard_sigmoid(1 / 5),
    "hard_sigmoid of Keras 3": _hard_sigmoid(1 / 6),
}


# A step of a cell takes x·W + b, the previous states, the canonical arrays, the gradients found so
# far, and the activations. It returns the new states, the output first, and its backward step: a
# function of the gradients of the new states. That function adds to the gradients of `recurrent`
# and of a GRU's second bias, and returns the gradient of x·W + b and those of the previous states.


def _lstm(projected, state, arrays, gradients, squash, gate):
    hidden, memory = state
    i, f, c, o = numpy.split(projected + hidden @ arrays["recurrent"], 4, axis=1)
    i, f, c, o = gate[0](i), gate[0](f), squash[0](c), gate[0](o)
    new = f * memory + i * c
    squashed = squash[0](new)

    def back(grad_hidden, grad_new):
        grad_new = grad_new + grad_hidden * o * squash[1](squashed)
        gates = [
            grad_new * c * gate[1](i),
            grad_new * memory * gate[1](f),
            grad_new * i * squash[1](c),
            grad_hidden * squashed * gate[1](o),
        ]
        gates = numpy.concatenate(gates, axis=1)
        gradients["recurrent"] += hidden.T @ gates
        return gates, (gates @ arrays["recurrent"].T, grad_new * f)

    return (o * squashed, new), back


def _gru(projected, state, arrays, gradients, squash, gate):
    (hidden,), recurrent = state, arrays["recurrent"]
    p_z, p_r, p_h = numpy.split(projected, 3, axis=1)
    q_z, q_r, q_h = numpy.split(hidden @ recurrent + arrays["bias"][1], 3, axis=1)
    z, r = gate[0](p_z + q_z), gate[0](p_r + q_r)
    n = squash[0](p_h + r * q_h)

    def back(grad_hidden):
        grad_n = grad_hidden * (1 - z) * squash[1](n)
        grad_z = grad_hidden * (hidden - n) * gate[1](z)
        grad_r = grad_n * q_h * gate[1](r)
        grad_q = numpy.concatenate([grad_z, grad_r, grad_n * r], axis=1)
        gradients["recurrent"] += hidden.T @ grad_q
        gradients["bias"][1] += grad_q.sum(axis=0)
        grad_before = grad_hidden * z + grad_q @ recurrent.T
        return numpy.concatenate([grad_z, grad_r, grad_n], axis=1), (grad_before,)

    return (z * hidden + (1 - z) * n,), back


def _gru_reset_before(projected, state, arrays, gradients, squash, gate):
    (hidden,), recurrent = state, arrays["recurrent"]
    gates = 2 * hidden.shape[1]
    both = gate[0](projected[:, :gates] + hidden @ recurrent[:, :gates])
    z, r = numpy.split(both, 2, axis=1)
    n = squash[0](projected[:, gates:] + (r * hidden) @ recurrent[:, gates:])

    def back(grad_hidden):
        grad_n = grad_hidden * (1 - z) * squash[1](n)
        grad_z = grad_hidden * (hidden - n) * gate[1](z)
        grad_reset = grad_n @ recurrent[:, gates:].T
        grad_r = grad_reset * hidden * gate[1](r)
        grad_zr = numpy.concatenate([grad_z, grad_r], axis=1)
        gradients["recurrent"][:, :gates] += hidden.T @ grad_zr
        gradients["recurrent"][:, gates:] += (r * hidden).T @ grad_n
        grad_before = grad_hidden * z + grad_reset * r + grad_zr @ recurrent[:, :gates].T
        return numpy.concatenate([grad_zr, grad_n], axis=1), (grad_before,)

    return (z * hidden + (1 - z) * n,), back


def _rnn(projected, state, arrays, gradients, squash, gate):
    (hidden,), recurrent = state, arrays["recurrent"]
    new = squash[0](projected + hidden @ recurrent)

    def back(grad_hidden):
        grad = grad_hidden * squash[1](new)
        gradients["recurrent"] += hidden.T @ grad
        return grad, (grad @ recurrent.T,)

    return (new,), back


# Cell → its step, and its number of states.
CELLS = {
    "lstm": (_lstm, 2),
    "gru": (_gru, 1),
    "gru_reset_before": (_gru_reset_before, 1),
    "rnn_tanh": (_rnn, 1),
    "rnn_relu": (_rnn, 1),
}
