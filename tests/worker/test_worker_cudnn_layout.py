"""Conversions to and from cuDNN's parameter buffer and Keras 2's CuDNN layers, without a GPU."""

from __future__ import annotations

from types import SimpleNamespace

import numpy
import pytest

from rnnworker.recurrent import contrib_cudnn, cudnn_layout, cudnn_raw, legacy_cudnn

INPUTS, UNITS = 3, 2
DIRECTIONS = ("forward", "backward")
STACKS = [(layers, both) for layers in (1, 2, 3) for both in (1, 2)]
CELLS = ("lstm", "gru", "rnn_tanh", "rnn_relu")


def arrays_of(cell: str, inputs: int = INPUTS, seed: int = 0) -> dict[str, numpy.ndarray]:
    columns = len(cudnn_layout.ORDERS[cell]) * UNITS
    stream = numpy.random.RandomState(seed)
    shapes = {"kernel": (inputs, columns), "recurrent": (UNITS, columns)}
    shapes["bias"] = (2, columns) if cell == "gru" else (columns,)
    return {name: stream.normal(size=shape).astype("float32") for name, shape in shapes.items()}


def stack_of(cell: str, layers: int, both: int) -> dict[str, numpy.ndarray]:
    """The canonical arrays of `layers` in 1 or 2 directions, `both`."""
    arrays = {}
    for layer in range(layers):
        inputs = INPUTS if layer == 0 else both * UNITS
        for number, direction in enumerate(DIRECTIONS[:both]):
            prefix = f"layer{layer}_" * (layers > 1) + f"{direction}_" * (both > 1)
            part = arrays_of(cell, inputs, seed=10 * layer + number)
            arrays |= {prefix + name: array for name, array in part.items()}
    return arrays


def assert_same(actual: dict, expected: dict) -> None:
    assert {name: array.tobytes() for name, array in actual.items()} == {
        name: array.tobytes() for name, array in expected.items()
    }
    assert {n: a.shape for n, a in actual.items()} == {n: a.shape for n, a in expected.items()}


@pytest.mark.parametrize(("layers", "both"), STACKS)
@pytest.mark.parametrize("cell", CELLS)
def test_the_round_trip_of_the_buffer_is_exact(cell: str, layers: int, both: int) -> None:
    arrays, shape = stack_of(cell, layers, both), (INPUTS, UNITS, layers, both)
    buffer = cudnn_layout.pack(cell, arrays)
    assert buffer.shape == (cudnn_layout.size(cell, *shape),)
    assert_same(cudnn_layout.unpack(cell, buffer, *shape), arrays)


def test_the_second_biases_of_a_stack_are_not_trained() -> None:
    arrays = stack_of("rnn_tanh", 2, 2)
    trained, buffer = (
        f("rnn_tanh", arrays) for f in (cudnn_layout.pack_trained, cudnn_layout.pack)
    )
    whole = cudnn_layout.with_untrained(
        numpy_as_tensorflow(), trained, "rnn_tanh", INPUTS, UNITS, 2, 2
    )
    assert whole.tobytes() == buffer.tobytes()
    biases = buffer[-4 * 2 * UNITS :].reshape(4, 2, UNITS)
    names = [f"layer{layer}_{direction}_bias" for layer in (0, 1) for direction in DIRECTIONS]
    assert numpy.array_equal(biases[:, 0], [arrays[name] for name in names])
    assert not biases[:, 1].any()


def numpy_as_tensorflow() -> SimpleNamespace:
    """NumPy's functions under the names of TensorFlow's."""
    return SimpleNamespace(
        convert_to_tensor=numpy.asarray,
        split=lambda value, sizes: numpy.split(value, numpy.cumsum(sizes)[:-1]),
        zeros=numpy.zeros,
        concat=numpy.concatenate,
    )


def test_the_position_of_each_gate_of_an_lstm() -> None:
    """cuDNN's linLayerID 0 to 3 are input, forget, new memory and output of the inputs, 4 to 7
    the same of the state; rows are units."""
    arrays = arrays_of("lstm")
    buffer = cudnn_layout.pack("lstm", arrays)
    for gate in range(4):
        columns = slice(gate * UNITS, (gate + 1) * UNITS)
        start = gate * UNITS * INPUTS
        matrix = buffer[start : start + UNITS * INPUTS].reshape(UNITS, INPUTS)
        assert numpy.array_equal(matrix, arrays["kernel"][:, columns].T)
        start = 4 * UNITS * INPUTS + gate * UNITS * UNITS
        matrix = buffer[start : start + UNITS * UNITS].reshape(UNITS, UNITS)
        assert numpy.array_equal(matrix, arrays["recurrent"][:, columns].T)
    start = 4 * UNITS * (INPUTS + UNITS)
    assert numpy.array_equal(buffer[start : start + 4 * UNITS], arrays["bias"])
    assert not buffer[start + 4 * UNITS :].any()


def test_the_reset_gate_of_a_gru_is_first() -> None:
    arrays = arrays_of("gru")
    buffer = cudnn_layout.pack("gru", arrays)
    first = buffer[: UNITS * INPUTS].reshape(UNITS, INPUTS)
    assert numpy.array_equal(first, arrays["kernel"][:, UNITS : 2 * UNITS].T)
    biases = buffer[3 * UNITS * (INPUTS + UNITS) :].reshape(2, 3, UNITS)
    for bias, canonical in zip(biases, arrays["bias"], strict=True):
        z, r, h = canonical.reshape(3, UNITS)
        assert numpy.array_equal(bias, [r, z, h])


def test_cudnns_equations_on_the_buffer_compute_the_gru_of_the_reference() -> None:
    """NVIDIA's equations on the buffer: h' = (1 − i) ∘ n + i ∘ h, in which i is Keras's z."""
    from rnnworker import reference

    arrays = {name: a.astype("float64") for name, a in arrays_of("gru").items()}
    buffer = cudnn_layout.pack("gru", arrays)
    w = buffer[: 3 * UNITS * INPUTS].reshape(3, UNITS, INPUTS)
    r = buffer[3 * UNITS * INPUTS :][: 3 * UNITS * UNITS].reshape(3, UNITS, UNITS)
    bias_w, bias_r = buffer[-6 * UNITS :].reshape(2, 3, UNITS)
    x = numpy.random.RandomState(1).normal(size=(2, 4, INPUTS))
    hidden = numpy.zeros((2, UNITS))
    for time in range(4):
        from_x = [x[:, time] @ w[gate].T + bias_w[gate] for gate in range(3)]
        from_h = [hidden @ r[gate].T + bias_r[gate] for gate in range(3)]
        reset, update = (1 / (1 + numpy.exp(-(from_x[g] + from_h[g]))) for g in (0, 1))
        new = numpy.tanh(from_x[2] + reset * from_h[2])
        hidden = (1 - update) * new + update * hidden
    outputs, _ = reference.run("gru", x, arrays, numpy.ones((2, UNITS)))
    assert numpy.allclose(hidden, outputs, atol=1e-14)


def test_the_two_biases_of_an_lstm_are_added_but_not_their_gradients() -> None:
    arrays = arrays_of("lstm")
    buffer = cudnn_layout.pack("lstm", arrays)
    buffer[-4 * UNITS :] = 1.0
    weights = cudnn_layout.unpack("lstm", buffer, INPUTS, UNITS)
    assert numpy.array_equal(weights["bias"], arrays["bias"] + 1.0)
    gradients = cudnn_layout.unpack("lstm", buffer, INPUTS, UNITS, gradients=True)
    assert numpy.array_equal(gradients["bias"], arrays["bias"])


class Layer:
    """Has weights as a Keras layer does."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)

    def set_weights(self, values):
        self.values = values

    def get_weights(self):
        return self.values


@pytest.mark.parametrize("module", [cudnn_raw, contrib_cudnn])
@pytest.mark.parametrize(("layers", "both"), STACKS)
@pytest.mark.parametrize("cell", CELLS)
def test_the_trained_weights_are_those_that_keras_trains(
    cell: str, layers: int, both: int, module
) -> None:
    layer = Layer(cell_name=cell, inputs_size=INPUTS, units=UNITS, depth=layers, directions=both)
    arrays = stack_of(cell, layers, both)
    module.from_canonical(layer, arrays)
    assert layer.values[0].size == sum(array.size for array in arrays.values())
    assert_same(module.to_canonical(layer), arrays)
    assert_same(module.gradients_to_canonical(layer, layer.values), arrays)


@pytest.mark.parametrize(("cell", "name"), sorted(legacy_cudnn.LAYERS.items()))
def test_the_round_trip_of_keras_2s_layers_is_exact(cell: str, name: str) -> None:
    arrays = arrays_of(cell)
    layer = type(name, (Layer,), {})()
    legacy_cudnn.from_canonical(layer, arrays)
    kernel, _, bias = layer.values
    assert kernel.shape == arrays["kernel"].shape
    assert bias.size == arrays["bias"].size
    assert_same(legacy_cudnn.to_canonical(layer), arrays)
    assert_same(legacy_cudnn.to_canonical(layer, layer.values), arrays)


@pytest.mark.parametrize(("cell", "name"), sorted(legacy_cudnn.LAYERS.items()))
def test_keras_2s_layers_pass_cudnn_its_buffer(cell: str, name: str) -> None:
    """``CuDNNLSTM`` flattens its matrices gate by gate in their order; ``CuDNNGRU`` puts r before z
    (``_process_batch`` in Keras 2's cudnn_recurrent.py)."""
    arrays = arrays_of(cell)
    kernel, recurrent, _ = legacy_cudnn.pack(name, arrays)
    order = cudnn_layout.ORDERS[cell]
    gates = len(order)
    parts = [
        numpy.split(matrix, gates, axis=1)[gate].ravel()
        for matrix in (kernel, recurrent)
        for gate in order
    ]
    buffer = cudnn_layout.pack(cell, arrays)
    weights = gates * UNITS * (INPUTS + UNITS)
    assert numpy.array_equal(numpy.concatenate(parts), buffer[:weights])


def test_a_keras_without_these_layers_is_an_error() -> None:
    options = {"dropout": 0.0, "recurrent_dropout": 0.0}
    keras = SimpleNamespace(layers=SimpleNamespace(), __version__="3.15.1")
    with pytest.raises(ValueError, match=r"Keras 3.15.1 has no CuDNNLSTM"):
        legacy_cudnn.make(keras, "lstm", 4, options)
    with pytest.raises(ValueError, match="supports lstm and gru, not rnn_tanh"):
        legacy_cudnn.make(keras, "rnn_tanh", 4, options)
