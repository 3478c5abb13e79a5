"""Implementations without their frameworks: the layouts of weights are exact in both directions,
and what an op lacks is an error. `test_worker_conformance` checks the order of the gates by the
outputs of real layers, `test_worker_buffer` that in cuDNN's buffer."""

from __future__ import annotations

from types import SimpleNamespace

import numpy
import pytest

from rnnworker.canonical_weights import GATES
from rnnworker.kernels import (
    block,
    block_cell,
    contrib,
    contrib_cudnn,
    cudnn_compatible,
    cudnn_raw,
    legacy_cudnn,
    native,
)
from rnnworker.recurrent import cudnn_layout

INPUTS, UNITS = 3, 2
DIRECTIONS = ("forward", "backward")
STACKS = [(layers, both) for layers in (1, 2, 3) for both in (1, 2)]
CUDNN = ("lstm", "gru", "rnn_tanh", "rnn_relu")
Arrays = dict[str, numpy.ndarray]


def arrays_of(cell: str, inputs: int = INPUTS, seed: int = 0) -> Arrays:
    columns = GATES[cell] * UNITS
    stream = numpy.random.RandomState(seed)
    shapes = {"kernel": (inputs, columns), "recurrent": (UNITS, columns)}
    shapes["bias"] = (2, columns) if cell == "gru" else (columns,)
    return {name: stream.normal(size=shape).astype("float32") for name, shape in shapes.items()}


def stack_of(cell: str, layers: int, both: int) -> Arrays:
    """The canonical arrays of `layers` in 1 or 2 directions, `both`."""
    arrays = {}
    for layer in range(layers):
        inputs = INPUTS if layer == 0 else both * UNITS
        for number, direction in enumerate(DIRECTIONS[:both]):
            prefix = f"layer{layer}_" * (layers > 1) + f"{direction}_" * (both > 1)
            part = arrays_of(cell, inputs, seed=10 * layer + number)
            arrays |= {prefix + name: array for name, array in part.items()}
    return arrays


def assert_same(actual: Arrays, expected: Arrays) -> None:
    def exact(arrays: Arrays) -> dict[str, tuple]:
        return {name: (array.shape, array.tobytes()) for name, array in arrays.items()}

    assert exact(actual) == exact(expected)


@pytest.mark.parametrize(("layers", "both"), STACKS)
@pytest.mark.parametrize("cell", CUDNN)
def test_the_round_trip_of_cudnns_buffer_is_exact(cell: str, layers: int, both: int) -> None:
    """It has as many trained parameters as Keras's layers."""
    arrays, shape = stack_of(cell, layers, both), (INPUTS, UNITS, layers, both)
    buffer = cudnn_layout.pack(cell, arrays)
    assert buffer.size == cudnn_layout.trained_size(cell, *shape)
    assert buffer.size == sum(array.size for array in arrays.values())
    assert_same(cudnn_layout.unpack(cell, buffer, *shape), arrays)


@pytest.mark.parametrize(("cell", "name"), sorted(legacy_cudnn.LAYERS.items()))
def test_keras_2s_layers_pass_cudnn_its_buffer(cell: str, name: str) -> None:
    """``CuDNNLSTM`` flattens its matrices gate by gate in their order; ``CuDNNGRU`` puts r before z
    (``_process_batch`` in Keras 2's cudnn_recurrent.py)."""
    arrays, order = arrays_of(cell), cudnn_layout.ORDERS[cell]
    kernel, recurrent, bias = values = legacy_cudnn.pack(name, arrays)
    assert (kernel.shape, bias.size) == (arrays["kernel"].shape, arrays["bias"].size)
    assert_same(legacy_cudnn.unpack(name, values), arrays)
    parts = [
        numpy.split(matrix, len(order), axis=1)[gate].ravel()
        for matrix in (kernel, recurrent)
        for gate in order
    ]
    buffer = cudnn_layout.pack(cell, arrays)
    weights = len(order) * UNITS * (INPUTS + UNITS)
    assert numpy.array_equal(numpy.concatenate(parts), buffer[:weights])


@pytest.mark.parametrize(
    ("module", "backend", "name", "other"),
    [
        (block, None, "BlockLSTMV2", "gru"),
        (block_cell, None, "a block cell", "gru"),
        (contrib, None, "tf.contrib", "another"),
        (contrib_cudnn, None, "tf.contrib.cudnn_rnn", "gru_reset_before"),
        (cudnn_compatible, None, "a cuDNN-compatible cell", "rnn_tanh"),
        (cudnn_raw, None, "CudnnRNN", "gru_reset_before"),
        (legacy_cudnn, None, "a CuDNN layer", "rnn_tanh"),
        (native, "torch", "torch.nn", "gru_reset_before"),
        (native, "jax", "the scan", "another"),
    ],
)
def test_other_cells_and_dropout_are_errors(module, backend, name: str, other: str) -> None:
    keras = SimpleNamespace(backend=SimpleNamespace(backend=lambda: backend))
    with pytest.raises(ValueError, match=rf"{name} supports .*lstm.*, not {other}"):
        module.make(keras, other, 4, {})
    for dropout in ("dropout", "recurrent_dropout"):
        with pytest.raises(ValueError, match=f"{name} has no dropout inside the cell"):
            module.make(keras, "lstm", 4, {dropout: 0.5})


def test_a_build_without_the_layer_is_an_error() -> None:
    keras = SimpleNamespace(layers=SimpleNamespace(), __version__="3.15.1")
    with pytest.raises(ValueError, match=r"Keras 3.15.1 has no CuDNNLSTM"):
        legacy_cudnn.make(keras, "lstm", 4, {})
    keras = SimpleNamespace(backend=SimpleNamespace(backend=lambda: "tensorflow"))
    with pytest.raises(ValueError, match="torch or jax; this Keras is on tensorflow"):
        native.make(keras, "lstm", 4, {})
