"""The layouts of Keras 2's CuDNN layers, of torch's ``state_dict`` and of cuDNN's whole buffers,
converted to Keras's.

Each has two biases. Where Keras has one, it is their sum: `exact` says whether both were halves of
it, so that they can be had back. Raises ValueError for arrays that contradict each other.

Sources: Keras 2's converter (``preprocess_weights_for_loading``, 2.2 to 2.x); torch.nn.LSTM;
NVIDIA's cuDNN documentation, cudnnGetRNNLinLayerMatrixParams; jax (jax/experimental/rnn.py) and
tf.contrib (cudnn_rnn_ops.py, ``CudnnParamsFormatConverter``) for several layers in a buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from rnnweights.checkpoint import Computed, Data

Arrays = dict[str, Data]

CELLS = {4: "lstm", 3: "gru", 1: "rnn_tanh"}  # by the number of gates
TORCH = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
# Cell → torch's and cuDNN's gates as places in Keras's order, and the reverse.
ORDERS = {"lstm": (0, 1, 2, 3), "gru": (1, 0, 2), "rnn_tanh": (0,)}


def cell_of(recurrent: Data) -> str | None:
    """The cell of a matrix of units × gates·units, None if it has another shape."""
    if recurrent.ndim != 2 or not recurrent.size:
        return None
    units, columns = recurrent.shape
    gates, rest = divmod(columns, units)
    if rest:
        return None
    return CELLS.get(gates)


def from_cudnn_layer(cell: str, values: Sequence[Data]) -> tuple[Arrays, bool]:
    """Returns (Keras's arrays, exact) of a CuDNN layer.

    `cell`: ``lstm`` or ``gru``; `values`: kernel (inputs, gates·units), recurrent kernel (units,
    gates·units) and bias (2·gates·units,).
    """
    kernel, recurrent, biases = values
    units = len(recurrent)
    bias = np.asarray(biases).reshape(2, -1)
    exact = True
    if cell == "lstm":
        bias, exact = _sum(*bias)
    arrays: Arrays = {
        "kernel": _by_gate(kernel, units, _from_cudnn_gate),
        "recurrent_kernel": _by_gate(recurrent, units, np.transpose),
        "bias": bias,
    }
    return arrays, exact


def _from_cudnn_gate(gate: np.ndarray) -> np.ndarray:
    """The rows of a gate, read in order, are cuDNN's."""
    if gate.shape[0] == gate.shape[1]:
        return gate.T  # a view, where the other one is a copy
    return gate.reshape(gate.shape[::-1]).T


def to_cudnn_layer(cell: str, arrays: Mapping[str, Data]) -> Arrays:
    """The reverse of `from_cudnn_layer`; a missing bias is zero."""
    kernel = arrays["kernel"]
    recurrent = arrays["recurrent_kernel"]
    units = len(recurrent)
    bias = np.zeros((2, kernel.shape[1]), kernel.dtype)
    if "bias" in arrays:
        bias = np.asarray(arrays["bias"])
        if cell == "lstm":
            bias = np.stack([bias / 2, bias / 2])  # as by Keras's converter
    return {
        "kernel": _by_gate(kernel, units, lambda gate: gate.T.reshape(gate.shape)),
        "recurrent_kernel": _by_gate(recurrent, units, np.transpose),
        "bias": bias.ravel(),
    }


def _by_gate(matrix: Data, units: int, change: Callable[[np.ndarray], np.ndarray]) -> Computed:
    """The matrix with each of its gates changed."""

    def make() -> list[np.ndarray]:
        gates = np.split(np.asarray(matrix), matrix.shape[1] // units, axis=1)
        return [change(gate) for gate in gates]

    return Computed(matrix.shape, matrix.dtype, make)


def from_torch(values: Mapping[str, Data]) -> tuple[Arrays, bool]:
    """Returns (Keras's arrays, exact) of a direction of torch's LSTM, GRU or RNN.

    `values`: the arrays by the names in `TORCH`: weights (gates·units, inputs) and (gates·units,
    units); biases (gates·units,), which are optional. Raises ValueError if their names or shapes
    are others.
    """
    names = sorted(values)
    if names not in (sorted(TORCH), sorted(TORCH[:2])):
        raise ValueError(f"has the arrays {names}, not {TORCH}")
    kernel = _transposed(values["weight_ih"])
    recurrent = _transposed(values["weight_hh"])
    cell = cell_of(recurrent)
    columns = recurrent.shape[-1]
    fit = cell is not None and kernel.ndim == 2 and kernel.shape[1] == columns
    for name in TORCH[2:]:
        if name in values and values[name].shape != (columns,):
            fit = False
    if cell is None or not fit:
        shapes = [f"{name} {values[name].shape}" for name in names]
        raise ValueError(f"has arrays of contradicting shapes: {', '.join(shapes)}")

    arrays: Arrays = {
        "kernel": _reordered(cell, kernel),
        "recurrent_kernel": _reordered(cell, recurrent),
    }
    exact = True
    if "bias_ih" in values:
        bias = np.stack([np.asarray(values["bias_ih"]), np.asarray(values["bias_hh"])])
        if cell != "gru":
            bias, exact = _sum(*bias)
        arrays["bias"] = np.asarray(_reordered(cell, bias))
    return arrays, exact


def _transposed(matrix: Data) -> Computed:
    return Computed(matrix.shape[::-1], matrix.dtype, lambda: [np.asarray(matrix).T])


def _reordered(cell: str, array: Data) -> Computed:
    """The columns in Keras's order of the gates."""

    def make() -> list[np.ndarray]:
        gates = np.split(np.asarray(array), len(ORDERS[cell]), axis=-1)
        return [gates[place] for place in ORDERS[cell]]

    return Computed(array.shape, array.dtype, make)


def from_buffer(
    values: np.ndarray, cell: str, layers: int, directions: int, units: int
) -> list[tuple[Arrays, bool]]:
    """Returns (Keras's arrays, exact) of each layer and direction of a whole buffer: layer 0
    forward, layer 0 backward, layer 1 forward, …

    The matrices of all of them come first, as torch has them, then their biases. `values`: the
    buffer, in one dimension; `layers`, `directions`, `units`: of the stack that it belongs to.
    Raises ValueError if no stack of this form has so many numbers.
    """
    columns = len(ORDERS[cell]) * units
    count = layers * directions
    of_upper = (count - directions) * directions * units  # inputs of the layers above the first
    rest = values.size - columns * (of_upper + count * (units + 2))
    inputs, rest = divmod(rest, columns * directions)
    if rest or inputs < 1:
        raise ValueError(
            f"has {values.size} numbers, which {layers} layers of {units} {cell} units in "
            f"{directions} directions do not have"
        )

    biases = values[values.size - 2 * columns * count :].reshape(count, 2, columns)
    found = []
    start = 0
    for number in range(count):
        features = inputs if number < directions else directions * units
        middle = start + columns * features
        end = middle + columns * units
        parts = {
            "weight_ih": values[start:middle].reshape(columns, features),
            "weight_hh": values[middle:end].reshape(columns, units),
            "bias_ih": biases[number, 0],
            "bias_hh": biases[number, 1],
        }
        found.append(from_torch(parts))
        start = end
    return found


def _sum(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, bool]:
    """The sum of two biases, and whether they are equal."""
    return first + second, bool(np.array_equal(first, second))
