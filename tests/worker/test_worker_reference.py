"""The float64 reference, checked by finite differences and against independent equations."""

from __future__ import annotations

import numpy
import pytest

from rnnworker import canonical_weights, reference

GATES = canonical_weights.GATES
BATCH, TIME, INPUTS, UNITS = 2, 4, 3, 2
STEP = 1e-6


def arrays_of(
    cell: str, stream: numpy.random.RandomState, prefix: str = "", inputs: int = INPUTS
) -> dict:
    columns = GATES[cell] * UNITS
    return {
        f"{prefix}kernel": stream.normal(size=(inputs, columns)),
        f"{prefix}recurrent": stream.normal(size=(UNITS, columns)),
        f"{prefix}bias": stream.normal(size=(2, columns) if cell == "gru" else (columns,)),
    }


def check_gradients(cell: str, x, arrays: dict, upstream, function=None, corners=False) -> None:
    """The gradients of all arrays are those of finite differences, at each index or only at the
    first and the last one."""
    outputs, gradients = reference.run(cell, x, arrays, upstream, function)
    assert outputs.shape == upstream.shape
    assert set(gradients) == {"x", *arrays}

    def loss() -> float:
        return float((reference.run(cell, x, arrays, upstream, function)[0] * upstream).sum())

    for name, values in {**arrays, "x": x}.items():
        indices = list(numpy.ndindex(*values.shape))
        for index in (indices[0], indices[-1]) if corners else indices:
            value, losses = values[index], []
            for step in (STEP, -STEP):
                values[index] = value + step
                losses.append(loss())
            values[index] = value
            slope = (losses[0] - losses[1]) / (2 * STEP)
            assert slope == pytest.approx(gradients[name][index], abs=1e-7), (name, index)


@pytest.mark.parametrize("both", [False, True], ids=["forward", "both"])
@pytest.mark.parametrize("sequences", [False, True], ids=["last", "sequences"])
@pytest.mark.parametrize("cell", sorted(GATES))
def test_gradients_match_finite_differences(cell: str, sequences: bool, both: bool) -> None:
    stream = numpy.random.RandomState(1)
    prefixes = ("forward_", "backward_") if both else ("",)
    arrays = {name: a for prefix in prefixes for name, a in arrays_of(cell, stream, prefix).items()}
    x = stream.normal(size=(BATCH, TIME, INPUTS))
    shape = (BATCH, TIME) if sequences else (BATCH,)
    check_gradients(cell, x, arrays, stream.normal(size=(*shape, UNITS * len(prefixes))))


@pytest.mark.parametrize("sequences", [False, True], ids=["last", "sequences"])
@pytest.mark.parametrize("prefixes", [("",), ("forward_", "backward_")], ids=["forward", "both"])
def test_gradients_of_a_stack_match_finite_differences(
    prefixes: tuple[str, ...], sequences: bool
) -> None:
    stream = numpy.random.RandomState(3)
    width = UNITS * len(prefixes)
    layers = [
        {f"{prefix}{name}": array for prefix in prefixes for name, array in part.items()}
        for part in (arrays_of("gru", stream, inputs=inputs) for inputs in (INPUTS, width, width))
    ]
    joined = canonical_weights.join(canonical_weights.layer_prefixes(3), layers)
    arrays = {name: array.copy() for name, array in joined.items()}
    x = stream.normal(size=(BATCH, TIME, INPUTS))
    upstream = stream.normal(size=(BATCH, TIME, width) if sequences else (BATCH, width))
    below = x
    for layer in layers[:-1]:
        below, _ = reference.run("gru", below, layer, numpy.zeros((BATCH, TIME, width)))
    outputs = reference.run("gru", x, arrays, upstream)[0]
    assert numpy.array_equal(outputs, reference.run("gru", below, layers[-1], upstream)[0])
    check_gradients("gru", x, arrays, upstream, corners=True)


@pytest.mark.parametrize("keras_3", [False, True])
@pytest.mark.parametrize("cell", sorted(GATES))
def test_gradients_with_options_match_finite_differences(cell: str, keras_3: bool) -> None:
    options = {"activation": "relu", "recurrent_activation": "hard_sigmoid", "use_bias": False}
    function = reference.function_of(cell, options, keras_3)
    stream = numpy.random.RandomState(2)
    arrays = {name: a for name, a in arrays_of(cell, stream).items() if name != "bias"}
    x, upstream = stream.normal(size=(BATCH, TIME, INPUTS)), stream.normal(size=(BATCH, UNITS))
    check_gradients(cell, x, arrays, upstream, function)


def test_hard_sigmoid_differs_between_keras_2_and_3() -> None:
    values = numpy.array([-3.0, -2.6, 0.0, 1.0, 2.6, 3.0])
    two, three = (reference.ACTIVATIONS[f"hard_sigmoid of Keras {n}"][0](values) for n in (2, 3))
    assert two == pytest.approx([0, 0, 0.5, 0.7, 1, 1])
    assert three == pytest.approx([0, 0.4 / 6, 0.5, 4 / 6, 1 - 0.4 / 6, 1])


def test_an_unknown_activation_is_an_error() -> None:
    with pytest.raises(reference.UnknownFunction, match="no activation elu, only hard_sigmoid"):
        reference.function_of("lstm", {"activation": "elu"}, True)


def sigmoid(value):
    return 1 / (1 + numpy.exp(-value))


def test_one_step_of_an_lstm_by_hand() -> None:
    arrays = {
        "kernel": numpy.array([[1.0, 2.0, 3.0, 4.0]]),
        "recurrent": numpy.zeros((1, 4)),
        "bias": numpy.array([0.1, 0.2, 0.3, 0.4]),
    }
    x = numpy.array([[[0.5]]])
    outputs, _ = reference.run("lstm", x, arrays, numpy.ones((1, 1)))
    state = sigmoid(0.6) * numpy.tanh(1.8)
    assert outputs[0, 0] == pytest.approx(sigmoid(2.4) * numpy.tanh(state), abs=1e-15)
