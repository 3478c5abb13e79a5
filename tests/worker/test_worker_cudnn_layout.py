"""Conversions to and from cuDNN's parameter buffer and Keras 2's CuDNN layers, without a GPU."""

from __future__ import annotations

from types import SimpleNamespace

import numpy
import pytest

from rnnworker.recurrent import contrib_cudnn, cudnn_layout, cudnn_raw, legacy_cudnn

INPUTS, UNITS = 3, 2
CELLS = ("lstm", "gru", "rnn_tanh", "rnn_relu")


def arrays_of(cell: str) -> dict[str, numpy.ndarray]:
    columns = len(cudnn_layout.ORDERS[cell]) * UNITS
    stream = numpy.random.RandomState(0)
    shapes = {"kernel": (INPUTS, columns), "recurrent": (UNITS, columns)}
    shapes["bias"] = (2, columns) if cell == "gru" else (columns,)
    return {name: stream.normal(size=shape).astype("float32") for name, shape in shapes.items()}


def assert_same(actual: dict, expected: dict) -> None:
    assert {name: array.tobytes() for name, array in actual.items()} == {
        name: array.tobytes() for name, array in expected.items()
    }
    assert {n: a.shape for n, a in actual.items()} == {n: a.shape for n, a in expected.items()}


@pytest.mark.parametrize("cell", CELLS)
def test_the_round_trip_of_the_buffer_is_exact(cell: str) -> None:
    arrays = arrays_of(cell)
    buffer = cudnn_layout.pack(cell, arrays)
    assert buffer.shape == (cudnn_layout.size(cell, INPUTS, UNITS),)
    assert_same(cudnn_layout.unpack(cell, buffer, INPUTS, UNITS), arrays)


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
@pytest.mark.parametrize("cell", CELLS)
def test_the_trained_weights_are_those_that_keras_trains(cell: str, module) -> None:
    layer = Layer(cell_name=cell, inputs_size=INPUTS, units=UNITS)
    arrays = arrays_of(cell)
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
