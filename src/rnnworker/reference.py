"""The cells in float64 NumPy, forward and back through time: what every implementation must be.

Written for reading, not for speed; nothing of a framework. Arrays are canonical (see
``canonical``): ``kernel`` (inputs, gates·units), ``recurrent`` (units, gates·units), ``bias``
((gates·units,), for ``gru`` (2, gates·units): input and recurrent bias).

With x the input and h the output of a step, h' and c' those of the step before, σ the logistic
function, ∘ the product by element, and initial states zero:

- ``lstm`` (Hochreiter & Schmidhuber 1997; forget gate: Gers et al. 2000; no peepholes), gates i, f,
  c, o:  a = x·W + h'·R + b;  c = σ(a_f) ∘ c' + σ(a_i) ∘ tanh(a_c);  h = σ(a_o) ∘ tanh(c)
- ``gru`` (Cho et al. 2014, version 1 of arXiv 1406.1078; cuDNN's), gates z, r, h:
  p = x·W + b_1;  q = h'·R + b_2;  z = σ(p_z + q_z);  r = σ(p_r + q_r);  n = tanh(p_h + r ∘ q_h);
  h = z ∘ h' + (1 − z) ∘ n
- ``gru_reset_before`` (Cho et al. 2014, version 3), gates z, r, h:
  z, r = σ(x·W_zr + h'·R_zr + b_zr);  n = tanh(x·W_h + (r ∘ h')·R_h + b_h);
  h = z ∘ h' + (1 − z) ∘ n
- ``rnn_tanh``, ``rnn_relu`` (Elman 1990):  h = tanh or max(0, ·) of x·W + h'·R + b
"""

import numpy


def run(cell, x, arrays, output_gradient):
    """Outputs of a layer, and the gradients of sum(outputs ∘ output_gradient).

    **Arguments:**

    - `cell`: ``lstm``, ``gru``, ``gru_reset_before``, ``rnn_tanh`` or ``rnn_relu``.
    - `x`: (batch, time, inputs).
    - `arrays`: canonical; with the prefixes ``forward_`` and ``backward_`` for both directions.
    - `output_gradient`: (batch, time, units) for all steps, (batch, units) for the last one;
      twice the units for both directions, forward first.

    **Returns** (outputs, shaped like `output_gradient`; gradients: ``x`` and one per array).
    """
    x, upstream = numpy.asarray(x, "float64"), numpy.asarray(output_gradient, "float64")
    arrays = {name: numpy.asarray(array, "float64") for name, array in arrays.items()}
    if "kernel" in arrays:
        return _one_direction(cell, x, arrays, upstream)
    forward, backward = (
        {name[len(way) :]: array for name, array in arrays.items() if name.startswith(way)}
        for way in ("forward_", "backward_")
    )
    first, second = numpy.split(upstream, 2, axis=-1)
    sequences = upstream.ndim == 3
    turned = second[:, ::-1] if sequences else second
    outputs, gradients = _one_direction(cell, x, forward, first)
    outputs_back, gradients_back = _one_direction(cell, x[:, ::-1], backward, turned)
    found = {"x": gradients.pop("x") + gradients_back.pop("x")[:, ::-1]}
    found.update({"forward_" + name: value for name, value in gradients.items()})
    found.update({"backward_" + name: value for name, value in gradients_back.items()})
    if sequences:
        outputs_back = outputs_back[:, ::-1]
    return numpy.concatenate([outputs, outputs_back], axis=-1), found


def _one_direction(cell, x, arrays, upstream):
    step, step_back, states = CELLS[cell]
    batch, times, _ = x.shape
    units = arrays["recurrent"].shape[0]
    state = tuple(numpy.zeros((batch, units)) for _ in range(states))
    outputs, kept = [], []
    for time in range(times):
        state, memory = step(x[:, time], state, arrays)
        outputs.append(state[0])
        kept.append(memory)
    gradients = {name: numpy.zeros_like(array) for name, array in arrays.items()}
    gradients["x"] = numpy.zeros_like(x)
    back = tuple(numpy.zeros((batch, units)) for _ in range(states))
    for time in reversed(range(times)):
        arrived = upstream[:, time] if upstream.ndim == 3 else (time == times - 1) * upstream
        back = (back[0] + arrived,) + back[1:]
        gradients["x"][:, time], back = step_back(back, kept[time], arrays, gradients)
    if upstream.ndim == 3:
        return numpy.stack(outputs, axis=1), gradients
    return outputs[-1], gradients


def _sigmoid(value):
    return 0.5 * (1.0 + numpy.tanh(0.5 * value))


def _affine_back(back, x, hidden, arrays, gradients):
    """Back through x·W + h'·R + b: adds to `gradients`, returns those of x and h'."""
    gradients["kernel"] += x.T @ back
    gradients["recurrent"] += hidden.T @ back
    gradients["bias"] += back.sum(axis=0)
    return back @ arrays["kernel"].T, back @ arrays["recurrent"].T


def _lstm(x, state, arrays):
    hidden, memory = state
    both = x @ arrays["kernel"] + hidden @ arrays["recurrent"] + arrays["bias"]
    i, f, c, o = numpy.split(both, 4, axis=1)
    i, f, c, o = _sigmoid(i), _sigmoid(f), numpy.tanh(c), _sigmoid(o)
    new = f * memory + i * c
    return (o * numpy.tanh(new), new), (x, hidden, memory, i, f, c, o, new)


def _lstm_back(back, kept, arrays, gradients):
    x, hidden, memory, i, f, c, o, new = kept
    back_hidden, back_new = back
    squashed = numpy.tanh(new)
    back_new = back_new + back_hidden * o * (1 - squashed**2)
    gates = [
        back_new * c * i * (1 - i),
        back_new * memory * f * (1 - f),
        back_new * i * (1 - c**2),
        back_hidden * squashed * o * (1 - o),
    ]
    gates = numpy.concatenate(gates, axis=1)
    back_x, back_before = _affine_back(gates, x, hidden, arrays, gradients)
    return back_x, (back_before, back_new * f)


def _gru(x, state, arrays):
    (hidden,) = state
    p_z, p_r, p_h = numpy.split(x @ arrays["kernel"] + arrays["bias"][0], 3, axis=1)
    q_z, q_r, q_h = numpy.split(hidden @ arrays["recurrent"] + arrays["bias"][1], 3, axis=1)
    z, r = _sigmoid(p_z + q_z), _sigmoid(p_r + q_r)
    n = numpy.tanh(p_h + r * q_h)
    return (z * hidden + (1 - z) * n,), (x, hidden, z, r, n, q_h)


def _gru_back(back, kept, arrays, gradients):
    x, hidden, z, r, n, q_h = kept
    (back_hidden,) = back
    back_n = back_hidden * (1 - z) * (1 - n**2)
    back_z = back_hidden * (hidden - n) * z * (1 - z)
    back_r = back_n * q_h * r * (1 - r)
    back_p = numpy.concatenate([back_z, back_r, back_n], axis=1)
    back_q = numpy.concatenate([back_z, back_r, back_n * r], axis=1)
    gradients["kernel"] += x.T @ back_p
    gradients["recurrent"] += hidden.T @ back_q
    gradients["bias"] += numpy.stack([back_p.sum(axis=0), back_q.sum(axis=0)])
    back_before = back_hidden * z + back_q @ arrays["recurrent"].T
    return back_p @ arrays["kernel"].T, (back_before,)


def _gru_reset_before(x, state, arrays):
    (hidden,) = state
    units = hidden.shape[1]
    recurrent = arrays["recurrent"]
    a = x @ arrays["kernel"] + arrays["bias"]
    gates = _sigmoid(a[:, : 2 * units] + hidden @ recurrent[:, : 2 * units])
    z, r = numpy.split(gates, 2, axis=1)
    n = numpy.tanh(a[:, 2 * units :] + (r * hidden) @ recurrent[:, 2 * units :])
    return (z * hidden + (1 - z) * n,), (x, hidden, z, r, n)


def _gru_reset_before_back(back, kept, arrays, gradients):
    x, hidden, z, r, n = kept
    (back_hidden,) = back
    units = hidden.shape[1]
    recurrent = arrays["recurrent"]
    back_n = back_hidden * (1 - z) * (1 - n**2)
    back_z = back_hidden * (hidden - n) * z * (1 - z)
    back_reset = back_n @ recurrent[:, 2 * units :].T
    back_r = back_reset * hidden * r * (1 - r)
    back_zr = numpy.concatenate([back_z, back_r], axis=1)
    back_all = numpy.concatenate([back_zr, back_n], axis=1)
    gradients["kernel"] += x.T @ back_all
    gradients["bias"] += back_all.sum(axis=0)
    gradients["recurrent"][:, : 2 * units] += hidden.T @ back_zr
    gradients["recurrent"][:, 2 * units :] += (r * hidden).T @ back_n
    back_before = back_hidden * z + back_reset * r + back_zr @ recurrent[:, : 2 * units].T
    return back_all @ arrays["kernel"].T, (back_before,)


def _rnn(activation, slope):
    def step(x, state, arrays):
        (hidden,) = state
        new = activation(x @ arrays["kernel"] + hidden @ arrays["recurrent"] + arrays["bias"])
        return (new,), (x, hidden, new)

    def step_back(back, kept, arrays, gradients):
        x, hidden, new = kept
        back_x, back_before = _affine_back(back[0] * slope(new), x, hidden, arrays, gradients)
        return back_x, (back_before,)

    return step, step_back, 1


# Cell → one step, one step back, how many states it has.
CELLS = {
    "lstm": (_lstm, _lstm_back, 2),
    "gru": (_gru, _gru_back, 1),
    "gru_reset_before": (_gru_reset_before, _gru_reset_before_back, 1),
    "rnn_tanh": _rnn(numpy.tanh, lambda new: 1 - new**2),
    "rnn_relu": _rnn(lambda value: numpy.maximum(value, 0), lambda new: (new > 0) * 1.0),
}
