"""The weights of a model, grouped by RNN cell, and their three layouts. No side effects.

`canonical` and `keras` are Keras's layout of LSTM and GRU (gates i, f, c, o and z, r, h); `cudnn`
is that of the CuDNNLSTM and CuDNNGRU layers of Keras 2: input matrices in cuDNN's order, recurrent
matrices transposed gate by gate, two biases in one row. Source: Keras 2's converter,
``preprocess_weights_for_loading``; tests in TensorFlow 1.15 compare the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rnnbench.errors import RecordError
from rnnworker.kernels.legacy_cudnn import pack, unpack

CUDNN = {4: "CuDNNLSTM", 3: "CuDNNGRU"}
RECURRENT, KERNEL, BIAS = "recurrent_kernel", "kernel", "bias"


@dataclass(frozen=True)
class Weight:
    """One array and its name in the file, such as ``lstm/kernel:0``."""

    name: str
    array: np.ndarray


@dataclass(frozen=True)
class Cell:
    """One direction of a recurrent layer in Keras's layout: `kernel` (inputs × gates·units),
    `recurrent` (units × gates·units), `bias` (gates·units, or 2 × gates·units if the recurrent
    product has a separate bias as in GRU with reset_after, or None). `names` are those of the
    weights that it was read from."""

    kernel: np.ndarray
    recurrent: np.ndarray
    bias: np.ndarray | None
    names: tuple[str, ...]

    @property
    def gates(self) -> int:
        return self.recurrent.shape[1] // self.recurrent.shape[0]


Part = Weight | Cell


@dataclass(frozen=True)
class Layer:
    """A layer with its `parts` in the order of the file; a bidirectional layer has two cells."""

    name: str
    parts: tuple[Part, ...]


def group_cells(name: str, weights: Sequence[Weight]) -> Layer:
    """The layer `name` with the arrays of each RNN cell grouped into a `Cell`."""
    return Layer(name, tuple(_parts(list(weights))))


def _parts(weights: list[Weight]) -> Iterator[Part]:
    while weights:
        if len(weights) > 1 and RECURRENT in weights[1].name:
            bias = len(weights) > 2 and _last(weights[2].name) == BIAS
            yield _cell(weights[: 2 + bias])
            weights = weights[2 + bias :]
        else:
            yield weights.pop(0)


def _cell(weights: Sequence[Weight]) -> Cell:
    names = tuple(weight.name for weight in weights)
    kernel, recurrent, *rest = (weight.array for weight in weights)
    units, width = recurrent.shape
    bias = rest[0] if rest else None
    if bias is not None and bias.ndim == 1 and bias.size == 2 * width:
        form = CUDNN.get(width // units)
        if form is None:
            raise RecordError(
                f"{names[0]} does not belong to a CuDNN layer of Keras.",
                where="weights",
                remedy="use a checkpoint of CuDNNLSTM or CuDNNGRU layers.",
            )
        arrays = unpack(form, (kernel, recurrent, bias))
        kernel, recurrent, bias = arrays["kernel"], arrays["recurrent"], arrays["bias"]
        if form == "CuDNNLSTM":
            bias = bias.reshape(2, -1).sum(axis=0)
    return Cell(kernel, recurrent, bias, names)


def in_layout(cell: Cell, layout: str) -> list[Weight]:
    """The arrays of `cell` in this `layout`. Raises `RecordError` if CuDNN's layers do not support
    the cell."""
    if layout == "cudnn":
        arrays = _for_cudnn(cell)
    else:
        arrays = [cell.kernel, cell.recurrent, *([] if cell.bias is None else [cell.bias])]
    names = [*cell.names, cell.names[0].replace(KERNEL, BIAS)][: len(arrays)]
    return [Weight(name, array) for name, array in zip(names, arrays, strict=True)]


def _for_cudnn(cell: Cell) -> list[np.ndarray]:
    form = CUDNN.get(cell.gates)
    width = cell.recurrent.shape[1]
    bias = cell.bias
    if form == "CuDNNGRU" and bias is None:
        bias = np.zeros((2, width), cell.kernel.dtype)
    if form is None or (form == "CuDNNGRU" and bias is not None and bias.ndim != 2):
        reason = "has no gates" if form is None else "applies the reset gate before the product"
        raise RecordError(
            f"{cell.names[0]}: the cell {reason}; the CuDNN layers of Keras 2 do not support this.",
            where="weights",
            remedy="convert with --to keras or --to canonical.",
        )
    if form == "CuDNNLSTM":
        total = np.zeros(width, cell.kernel.dtype) if bias is None else bias
        bias = np.stack([total / 2, total / 2])  # halved, as by Keras's converter
    arrays = {"kernel": cell.kernel, "recurrent": cell.recurrent, "bias": bias}
    return list(pack(form, arrays))


def _last(name: str) -> str:
    return name.rpartition("/")[2].partition(":")[0]
