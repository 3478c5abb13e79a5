"""The float64 reference, checked by finite differences and against independent equations."""

from __future__ import annotations

import numpy
import pytest

from rnnworker import canonical_weights, reference

GATES = canonical_weights.GATES
BATCH, TIME, INPUTS, UNITS = 2, 4, 3, 2
STEP = 1e-6


def arrays_of(cell: str, stream: numpy.random.RandomState, inputs: int = INPUTS) -> dict:
    columns = GATES[cell] * UNITS
    return {
        "kernel": stream.normal(size=(inputs, columns)),
        "recurrent": stream.normal(size=(UNITS, columns)),
        "bias": stream.normal(size=(2, columns) if cell == "gru" else (columns,)),
    }


def check_gradients(cell: str, x, arrays: dict, upstream, function=None) -> None:
    """The gradient of each array is that of finite differences along a random direction, to which
    every element contributes."""
    outputs, gradients = reference.run(cell, x, arrays, upstream, function)
    assert outputs.shape == upstream.shape
    assert set(gradients) == {"x", *arrays}
    stream = numpy.random.RandomState(4)
    for name, gradient in gradients.items():
        direction, losses = stream.normal(size=gradient.shape), []
        for step in (STEP, -STEP):
            moved = {**arrays, "x": x}
            moved[name] = moved[name] + step * direction
            outputs, _ = reference.run(cell, moved.pop("x"), moved, upstream, function)
            losses.append((outputs * upstream).sum())
        slope = (losses[0] - losses[1]) / (2 * STEP)
        assert slope == pytest.approx((gradient * direction).sum(), abs=1e-7), name


@pytest.mark.parametrize("prefixes", [("",), ("forward_", "backward_")], ids=["forward", "both"])
@pytest.mark.parametrize("sequences", [False, True], ids=["last", "sequences"])
@pytest.mark.parametrize(
    ("cell", "count"), [*((cell, 1) for cell in sorted(GATES)), ("gru", 3)], ids=str
)
def test_gradients_match_finite_differences(
    cell: str, count: int, sequences: bool, prefixes: tuple[str, ...]
) -> None:
    """`count`: layers of the stack."""
    stream = numpy.random.RandomState(1)
    width = UNITS * len(prefixes)
    layers = [
        {prefix + n: a for prefix in prefixes for n, a in arrays_of(cell, stream, inputs).items()}
        for inputs in [INPUTS, *[width] * (count - 1)]
    ]
    arrays = layers[0]
    if count > 1:
        arrays = canonical_weights.join(canonical_weights.layer_prefixes(count), layers)
    x = stream.normal(size=(BATCH, TIME, INPUTS))
    upstream = stream.normal(size=(BATCH, TIME, width) if sequences else (BATCH, width))
    below = x
    for layer in layers[:-1]:
        below, _ = reference.run(cell, below, layer, numpy.zeros((BATCH, TIME, width)))
    outputs = reference.run(cell, x, arrays, upstream)[0]
    assert numpy.array_equal(outputs, reference.run(cell, below, layers[-1], upstream)[0])
    check_gradients(cell, x, arrays, upstream)


@pytest.mark.parametrize("keras_3", [False, True])
@pytest.mark.parametrize("cell", sorted(GATES))
def test_gradients_with_options_match_finite_differences(cell: str, keras_3: bool) -> None:
    options = {"activation": "relu", "recurrent_activation": "hard_sigmoid", "use_bias": False}
    options["go_backwards"] = keras_3
    function = reference.function_of(cell, options, keras_3)
    stream = numpy.random.RandomState(2)
    arrays = {name: a for name, a in arrays_of(cell, stream).items() if name != "bias"}
    x, upstream = stream.normal(size=(BATCH, TIME, INPUTS)), stream.normal(size=(BATCH, UNITS))
    check_gradients(cell, x, arrays, upstream, function)


@pytest.mark.parametrize("name", sorted(set(reference.ACTIVATIONS) - {"relu"}))
def test_the_derivative_of_an_activation_follows_from_its_value(name: str) -> None:
    function, derivative = reference.ACTIVATIONS[name]
    x, step = numpy.array([-2.3, -0.7, -0.1, 0.2, 0.9, 2.1]), 1e-6
    slope = (function(x + step) - function(x - step)) / (2 * step)
    assert derivative(function(x)) == pytest.approx(slope, abs=1e-7)


def test_a_layer_that_goes_backwards_reads_its_inputs_in_reverse() -> None:
    stream = numpy.random.RandomState(3)
    arrays, x = arrays_of("lstm", stream), stream.normal(size=(BATCH, TIME, INPUTS))
    upstream = stream.normal(size=(BATCH, TIME, UNITS))
    backwards = reference.function_of("lstm", {"go_backwards": True}, True)
    outputs, gradients = reference.run("lstm", x, arrays, upstream, backwards)
    expected, others = reference.run("lstm", x[:, ::-1], arrays, upstream)
    assert numpy.array_equal(outputs, expected)
    assert numpy.array_equal(gradients["x"], others["x"][:, ::-1])


def test_hard_sigmoid_differs_between_keras_2_and_3() -> None:
    values = numpy.array([-3.0, -2.6, 0.0, 1.0, 2.6, 3.0])
    two, three = (reference.ACTIVATIONS[f"hard_sigmoid of Keras {n}"][0](values) for n in (2, 3))
    assert two == pytest.approx([0, 0, 0.5, 0.7, 1, 1])
    assert three == pytest.approx([0, 0.4 / 6, 0.5, 4 / 6, 1 - 0.4 / 6, 1])


def test_an_unknown_activation_is_an_error() -> None:
    with pytest.raises(reference.UnknownFunction, match="no activation gelu, only elu, exp"):
        reference.function_of("lstm", {"activation": "gelu"}, True)


def test_one_step_of_an_lstm_by_hand() -> None:
    kernel, bias = numpy.array([[1.0, 2.0, 3.0, 4.0]]), numpy.array([0.1, 0.2, 0.3, 0.4])
    arrays = {"kernel": kernel, "bias": bias, "recurrent": numpy.zeros((1, 4))}
    outputs, _ = reference.run("lstm", [[[0.5]]], arrays, numpy.ones((1, 1)))
    state = numpy.tanh(1.8) / (1 + numpy.exp(-0.6))
    expected = numpy.tanh(state) / (1 + numpy.exp(-2.4))
    assert outputs[0, 0] == pytest.approx(expected, abs=1e-15)
