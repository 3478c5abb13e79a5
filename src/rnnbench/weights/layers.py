"""A model's weights with its recurrent layers told from the rest, and their three layouts. Pure.

`canonical` and `keras` are as Keras lays out LSTM and GRU (gates i, f, c, o and z, r, h); `cudnn`
as the CuDNNLSTM and CuDNNGRU layers of Keras 2 did: input matrices read in cuDNN's order, recurrent
ones transposed gate by gate, two biases in one row. Source: Keras 2's converter,
``preprocess_weights_for_loading``; held to it by tests in TensorFlow 1.15.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rnnbench.errors import RecordError
from rnnworker.recurrent.legacy_cudnn import pack, unpack

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
    `recurrent` (units × gates·units); `bias` is gates·units, or 2 × gates·units where the state
    has its own (GRU, reset after), or None. `names`: of the weights it was read from."""

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
    """`parts` in the order of the file; a layer in both directions has two cells."""

    name: str
    parts: tuple[Part, ...]


def told_apart(name: str, weights: Sequence[Weight]) -> Layer:
    """The layer `name` with the arrays of each recurrent cell taken together."""
    return Layer(name, tuple(_parts(list(weights))))


def _parts(weights: list[Weight]) -> Iterator[Part]:
    while weights:
        if len(weights) > 1 and RECURRENT in weights[1].name:
            bias = len(weights) > 2 and _last(weights[2].name) == BIAS
            taken, weights = weights[: 2 + bias], weights[2 + bias :]
            yield _cell(taken)
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
                f"{names[0]} is of no CuDNN layer that Keras had.",
                where="weights",
                remedy="it had CuDNNLSTM and CuDNNGRU.",
            )
        found = unpack(form, (kernel, recurrent, bias))
        kernel, recurrent, bias = found["kernel"], found["recurrent"], found["bias"]
        if form == "CuDNNLSTM":
            bias = bias.reshape(2, -1).sum(axis=0)
    return Cell(kernel, recurrent, bias, names)


def in_layout(cell: Cell, layout: str) -> list[Weight]:
    """The arrays of `cell` as a checkpoint of this `layout` has them. Raises a `RecordError` where
    cuDNN has no such cell."""
    arrays = [cell.kernel, cell.recurrent, *([] if cell.bias is None else [cell.bias])]
    if layout == "cudnn":
        arrays = _for_cudnn(cell)
    names = [*cell.names, f"{cell.names[0].replace(KERNEL, BIAS)}"][: len(arrays)]
    return [Weight(name, array) for name, array in zip(names, arrays, strict=True)]


def _for_cudnn(cell: Cell) -> list[np.ndarray]:
    form = CUDNN.get(cell.gates)
    width = cell.recurrent.shape[1]
    bias = cell.bias
    if form == "CuDNNGRU" and bias is None:
        bias = np.zeros((2, width), cell.kernel.dtype)
    if form is None or (form == "CuDNNGRU" and bias is not None and bias.ndim != 2):
        what = "has no gates" if form is None else "resets before the product"
        raise RecordError(
            f"{cell.names[0]}: the cell {what}, which CuDNN's layers of Keras 2 do not compute.",
            where="weights",
            remedy="convert it --to keras or canonical.",
        )
    if form == "CuDNNLSTM":
        whole = np.zeros(width, cell.kernel.dtype) if bias is None else bias
        bias = np.stack([whole / 2, whole / 2])  # as Keras's own converter halves it
    arrays = {"kernel": cell.kernel, "recurrent": cell.recurrent, "bias": bias}
    return list(pack(form, arrays))


def _last(name: str) -> str:
    return name.rpartition("/")[2].partition(":")[0]
