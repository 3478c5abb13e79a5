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
``recurrent_activation`` replaces σ.
"""

import numpy

from rnnworker import canonical_weights

PLAIN = {"activation": "tanh", "recurrent_activation": "sigmoid"}


class UnknownFunction(ValueError):
    """The reference does not implement the requested function."""


def function_of(cell, options, keras_3):
    """Returns the function that a layer computes: ``{"activation", "recurrent_activation",
    "use_bias"}``. Raises `UnknownFunction` if the reference lacks an activation.

    **Arguments:**

    - `options`: ``rnn.options``; only these three matter.
    - `keras_3`: whether it is Keras 3, whose hard_sigmoid has slope 1/6; in Keras 2 it is 1/5.
    """
    function = dict(PLAIN, activation="relu" if cell == "rnn_relu" else "tanh")
    if cell.startswith("rnn_"):
        function["recurrent_activation"] = None
    for name in sorted(function):
        activation = options.get(name) or function[name]
        if activation == "hard_sigmoid":
            activation = "hard_sigmoid of Keras " + ("3" if keras_3 else "2")
        if activation is not None and activation not in ACTIVATIONS:
            known = ", ".join(sorted(ACTIVATIONS))
            message = "the float64 reference has no {} {}, only {}".format(name, activation, known)
            raise UnknownFunction(message)
        function[name] = activation
    return dict(function, use_bias=bool(options.get("use_bias", True)))


def run(cell, x, arrays, output_gradient, function=None):
    """Returns the outputs of a layer and the gradients of sum(outputs ∘ output_gradient).

    **Arguments:**

    - `cell`: ``lstm``, ``gru``, ``gru_reset_before``, ``rnn_tanh`` or ``rnn_relu``.
    - `x`: (batch, time, inputs).
    - `arrays`: canonical; with the prefixes ``forward_`` and ``backward_`` for a bidirectional
      layer, ``layer0_``, ``layer1_``, … for a stack; without ``bias`` if the layer has none.
    - `output_gradient`: (batch, time, units) for all steps, (batch, units) for the last step;
      twice the units for a bidirectional layer, forward first.
    - `function`: from `function_of`; None is the cell as defined above.

    **Returns** (outputs, shaped like `output_gradient`; gradients: ``x`` and one per array).
    """
    x, upstream = numpy.asarray(x, "float64"), numpy.asarray(output_gradient, "float64")
    arrays = {name: numpy.asarray(array, "float64") for name, array in arrays.items()}
    layers = canonical_weights.split_layers(arrays)
    if len(layers) > 1:
        return _stack(cell, x, layers, upstream, function)
    if "kernel" in arrays:
        return _one_direction(cell, x, arrays, upstream, function)
    forward, backward = (
        {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}
        for prefix in ("forward_", "backward_")
    )
    first, second = numpy.split(upstream, 2, axis=-1)
    sequences = upstream.ndim == 3
    second = second[:, ::-1] if sequences else second
    outputs, gradients = _one_direction(cell, x, forward, first, function)
    outputs_back, gradients_back = _one_direction(cell, x[:, ::-1], backward, second, function)
    both = {"x": gradients.pop("x") + gradients_back.pop("x")[:, ::-1]}
    both.update({"forward_" + name: value for name, value in gradients.items()})
    both.update({"backward_" + name: value for name, value in gradients_back.items()})
    if sequences:
        outputs_back = outputs_back[:, ::-1]
    return numpy.concatenate([outputs, outputs_back], axis=-1), both


def _stack(cell, x, layers, upstream, function):
    inputs = [x]
    for arrays in layers[:-1]:
        nothing = numpy.zeros(x.shape[:2] + upstream.shape[-1:])
        inputs.append(run(cell, inputs[-1], arrays, nothing, function)[0])
    results = []
    for below, arrays in zip(reversed(inputs), reversed(layers)):
        results.append(run(cell, below, arrays, upstream, function))
        upstream = results[-1][1].pop("x")
    gradients = canonical_weights.join_layers(*(found for _, found in reversed(results)))
    return results[0][0], dict(gradients, x=upstream)


def _one_direction(cell, x, arrays, upstream, function):
    step, step_back, states = CELLS[cell]
    function = function or function_of(cell, {}, True)
    squash, gate = (
        ACTIVATIONS.get(function[name]) for name in ("activation", "recurrent_activation")
    )
    batch, times, _ = x.shape
    units = arrays["recurrent"].shape[0]
    given = set(arrays)
    arrays = dict({"bias": _no_bias(cell, arrays["recurrent"])}, **arrays)
    state = tuple(numpy.zeros((batch, units)) for _ in range(states))
    outputs, saved = [], []
    for time in range(times):
        state, values = step(x[:, time], state, arrays, squash, gate)
        outputs.append(state[0])
        saved.append(values)
    gradients = {name: numpy.zeros_like(array) for name, array in arrays.items()}
    gradients["x"] = numpy.zeros_like(x)
    grad = tuple(numpy.zeros((batch, units)) for _ in range(states))
    for time in reversed(range(times)):
        arrived = upstream[:, time] if upstream.ndim == 3 else (time == times - 1) * upstream
        grad = (grad[0] + arrived,) + grad[1:]
        gradients["x"][:, time], grad = step_back(
            grad, saved[time], arrays, gradients, squash, gate
        )
    gradients = {name: gradients[name] for name in given | {"x"}}
    if upstream.ndim == 3:
        return numpy.stack(outputs, axis=1), gradients
    return outputs[-1], gradients


def _no_bias(cell, recurrent):
    columns = recurrent.shape[1]
    return numpy.zeros((2, columns) if cell == "gru" else columns)


def _sigmoid(value):
    return 0.5 * (1.0 + numpy.tanh(0.5 * value))


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
    # Keras 2: 0.2 x + 0.5; Keras 3: relu6(x + 3) / 6.
    "hard_sigmoid of Keras 2": _hard_sigmoid(1 / 5),
    "hard_sigmoid of Keras 3": _hard_sigmoid(1 / 6),
}
TANH, SIGMOID = ACTIVATIONS["tanh"], ACTIVATIONS["sigmoid"]


def _affine_back(grad, x, hidden, arrays, gradients):
    """Backward pass of x·W + h'·R + b: adds to `gradients`, returns those of x and h'."""
    gradients["kernel"] += x.T @ grad
    gradients["recurrent"] += hidden.T @ grad
    gradients["bias"] += grad.sum(axis=0)
    return grad @ arrays["kernel"].T, grad @ arrays["recurrent"].T


def _lstm(x, state, arrays, squash=TANH, gate=SIGMOID):
    hidden, memory = state
    both = x @ arrays["kernel"] + hidden @ arrays["recurrent"] + arrays["bias"]
    i, f, c, o = numpy.split(both, 4, axis=1)
    i, f, c, o = gate[0](i), gate[0](f), squash[0](c), gate[0](o)
    new = f * memory + i * c
    return (o * squash[0](new), new), (x, hidden, memory, i, f, c, o, new)


def _lstm_back(grad, saved, arrays, gradients, squash, gate):
    x, hidden, memory, i, f, c, o, new = saved
    grad_hidden, grad_new = grad
    squashed = squash[0](new)
    grad_new = grad_new + grad_hidden * o * squash[1](squashed)
    gates = [
        grad_new * c * gate[1](i),
        grad_new * memory * gate[1](f),
        grad_new * i * squash[1](c),
        grad_hidden * squashed * gate[1](o),
    ]
    gates = numpy.concatenate(gates, axis=1)
    grad_x, grad_before = _affine_back(gates, x, hidden, arrays, gradients)
    return grad_x, (grad_before, grad_new * f)


def _gru(x, state, arrays, squash=TANH, gate=SIGMOID):
    (hidden,) = state
    p_z, p_r, p_h = numpy.split(x @ arrays["kernel"] + arrays["bias"][0], 3, axis=1)
    q_z, q_r, q_h = numpy.split(hidden @ arrays["recurrent"] + arrays["bias"][1], 3, axis=1)
    z, r = gate[0](p_z + q_z), gate[0](p_r + q_r)
    n = squash[0](p_h + r * q_h)
    return (z * hidden + (1 - z) * n,), (x, hidden, z, r, n, q_h)


def _gru_back(grad, saved, arrays, gradients, squash, gate):
    x, hidden, z, r, n, q_h = saved
    (grad_hidden,) = grad
    grad_n = grad_hidden * (1 - z) * squash[1](n)
    grad_z = grad_hidden * (hidden - n) * gate[1](z)
    grad_r = grad_n * q_h * gate[1](r)
    grad_p = numpy.concatenate([grad_z, grad_r, grad_n], axis=1)
    grad_q = numpy.concatenate([grad_z, grad_r, grad_n * r], axis=1)
    gradients["kernel"] += x.T @ grad_p
    gradients["recurrent"] += hidden.T @ grad_q
    gradients["bias"] += numpy.stack([grad_p.sum(axis=0), grad_q.sum(axis=0)])
    grad_before = grad_hidden * z + grad_q @ arrays["recurrent"].T
    return grad_p @ arrays["kernel"].T, (grad_before,)


def _gru_reset_before(x, state, arrays, squash=TANH, gate=SIGMOID):
    (hidden,) = state
    units = hidden.shape[1]
    recurrent = arrays["recurrent"]
    a = x @ arrays["kernel"] + arrays["bias"]
    gates = gate[0](a[:, : 2 * units] + hidden @ recurrent[:, : 2 * units])
    z, r = numpy.split(gates, 2, axis=1)
    n = squash[0](a[:, 2 * units :] + (r * hidden) @ recurrent[:, 2 * units :])
    return (z * hidden + (1 - z) * n,), (x, hidden, z, r, n)


def _gru_reset_before_back(grad, saved, arrays, gradients, squash, gate):
    x, hidden, z, r, n = saved
    (grad_hidden,) = grad
    units = hidden.shape[1]
    recurrent = arrays["recurrent"]
    grad_n = grad_hidden * (1 - z) * squash[1](n)
    grad_z = grad_hidden * (hidden - n) * gate[1](z)
    grad_reset = grad_n @ recurrent[:, 2 * units :].T
    grad_r = grad_reset * hidden * gate[1](r)
    grad_zr = numpy.concatenate([grad_z, grad_r], axis=1)
    grad_all = numpy.concatenate([grad_zr, grad_n], axis=1)
    gradients["kernel"] += x.T @ grad_all
    gradients["bias"] += grad_all.sum(axis=0)
    gradients["recurrent"][:, : 2 * units] += hidden.T @ grad_zr
    gradients["recurrent"][:, 2 * units :] += (r * hidden).T @ grad_n
    grad_before = grad_hidden * z + grad_reset * r + grad_zr @ recurrent[:, : 2 * units].T
    return grad_all @ arrays["kernel"].T, (grad_before,)


def _rnn(x, state, arrays, squash, gate=None):
    (hidden,) = state
    new = squash[0](x @ arrays["kernel"] + hidden @ arrays["recurrent"] + arrays["bias"])
    return (new,), (x, hidden, new)


def _rnn_back(grad, saved, arrays, gradients, squash, gate=None):
    x, hidden, new = saved
    grad_x, grad_before = _affine_back(grad[0] * squash[1](new), x, hidden, arrays, gradients)
    return grad_x, (grad_before,)


# Cell → forward step, backward step, number of states.
CELLS = {
    "lstm": (_lstm, _lstm_back, 2),
    "gru": (_gru, _gru_back, 1),
    "gru_reset_before": (_gru_reset_before, _gru_reset_before_back, 1),
    "rnn_tanh": (_rnn, _rnn_back, 1),
    "rnn_relu": (_rnn, _rnn_back, 1),
}
