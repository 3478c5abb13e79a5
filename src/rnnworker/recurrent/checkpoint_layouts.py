"""Layouts that recurrent layers have in checkpoints only, converted to canonical arrays: those of
Keras 2's CuDNN layers, torch's ``state_dict`` and cuDNN's whole buffers.

Each has two biases. Where the canonical form has one, it is their sum: `exact` says whether both
were halves of it, so that they can be had back. Raises ValueError for arrays that contradict each
other. Sources: `legacy_cudnn`, torch.nn.LSTM, `cudnn_layout`.
"""

import numpy

from rnnworker.kernels import legacy_cudnn
from rnnworker.recurrent import cells, cudnn_layout

CELLS = {4: "lstm", 3: "gru", 1: "rnn_tanh"}  # by the number of gates
TORCH = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def cell_of(recurrent):
    """The cell of a matrix of units × gates·units, None if it has another shape."""
    if recurrent.ndim != 2 or not recurrent.size:
        return None
    units, columns = recurrent.shape
    gates, rest = divmod(columns, units)
    if rest:
        return None
    return CELLS.get(gates)


def from_cudnn_layer(cell, values):
    """Returns (canonical arrays, exact) of a CuDNN layer.

    `cell`: ``lstm`` or ``gru``; `values`: kernel (inputs, gates·units), recurrent kernel (units,
    gates·units) and bias (2·gates·units,).
    """
    arrays = legacy_cudnn.unpack(values)
    exact = True
    if cell == "lstm":
        first, second = arrays["bias"].reshape(2, -1)
        arrays["bias"], exact = _sum(first, second)
    return arrays, exact


def to_cudnn_layer(cell, arrays):
    """The reverse of `from_cudnn_layer`; a missing bias is zero."""
    bias = arrays.get("bias")
    if bias is None:
        kernel = arrays["kernel"]
        bias = numpy.zeros((2, kernel.shape[1]), kernel.dtype)
    elif cell == "lstm":
        bias = numpy.stack([bias / 2, bias / 2])  # as by Keras's converter
    return legacy_cudnn.pack(dict(arrays, bias=bias))


def from_torch(values):
    """Returns (canonical arrays, exact) of a direction of torch's LSTM, GRU or RNN.

    `values`: the arrays by the names in `TORCH`: weights (gates·units, inputs) and (gates·units,
    units); biases (gates·units,), which are optional. Raises ValueError if their names or shapes
    are others.
    """
    names = sorted(values)
    if names not in (sorted(TORCH), sorted(TORCH[:2])):
        raise ValueError("has the arrays {}, not {}".format(names, TORCH))
    kernel = values["weight_ih"].T
    recurrent = values["weight_hh"].T
    cell = cell_of(recurrent)
    columns = recurrent.shape[-1]
    fit = cell is not None and kernel.ndim == 2 and kernel.shape[1] == columns
    for name in TORCH[2:]:
        if name in values and values[name].shape != (columns,):
            fit = False

    if not fit:
        shapes = ["{} {}".format(name, values[name].shape) for name in names]
        raise ValueError("has arrays of contradicting shapes: " + ", ".join(shapes))

    exact = True
    weights = [kernel, recurrent]
    if "bias_ih" in values:
        first = values["bias_ih"]
        second = values["bias_hh"]
        if cell == "gru":
            weights += [first, second]
        else:
            bias, exact = _sum(first, second)
            weights.append(bias)
    layout = cudnn_layout.layout(cell)[: len(weights)]
    return cells.unpack(layout, weights, len(recurrent)), exact


def from_buffer(values, cell, layers, directions, units):
    """Returns (list of the canonical arrays of each pseudo-layer, exact) of a whole buffer.

    `values`: the buffer, in one dimension; `layers`, `directions`, `units`: of the stack that it
    belongs to. Raises ValueError if no stack of this form has so many numbers.
    """
    count = layers * directions
    columns = len(cudnn_layout.ORDERS[cell]) * units
    least = cudnn_layout.trained_size(cell, 0, units, layers, directions)
    if cell != "gru":
        least += columns * count  # of the biases that are not trained
    of_inputs = values.size - least
    inputs, rest = divmod(of_inputs, columns * directions)
    if rest or inputs < 1:
        message = "has {} numbers, which {} layers of {} {} units in {} directions do not have"
        raise ValueError(message.format(values.size, layers, units, cell, directions))

    exact = True
    if cell == "lstm":
        end = values.size - 2 * columns * count
        pairs = values[end:].reshape(count, 2, columns)
        bias, exact = _sum(pairs[:, 0], pairs[:, 1])
        values = numpy.concatenate([values[:end], bias.ravel()])
    arrays = cudnn_layout.unpack(cell, values, inputs, units, layers, directions)
    return cudnn_layout.pseudo_layers(arrays), exact


def _sum(first, second):
    """The sum of two biases, and whether they are equal."""
    return first + second, bool(numpy.array_equal(first, second))
