"""A checkpoint that was read, and what all of its formats need: checks of values and sizes, and the
names of arrays."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import h5py
import numpy as np

from rnnweights.cells import PARTS, Array, Item, Refusal

# What a file holds at most in memory: times its size, and bytes besides.
INFLATION = 100
SMALL = 2**20
IN_CELL = re.compile(r"/(lstm|gru|simple_rnn)_cell(_\d+)?(?=/[^/]*$)")


@dataclass(frozen=True)
class Checkpoint:
    """The arrays of a file.

    `kind`: how the arrays are stored, such as ``.keras`` or ``torch``;
    `content`: the bytes of a file of Keras;
    `config`: the model's configuration, if the file has one;
    `container`: the group with the layers in a file of Keras 3, or of Keras 2.13;
    `order`: whether the file has that of the ``layers``, also of the ``arrays`` in a layer, or
    ``none``;
    `optimizer`: the number of arrays of the optimizer and the metrics, which are not in `arrays`;
    `attributes`: the versions of Keras and its backend;
    `labels`: the names of layers and cells by their groups, in a file of Keras 3.4 and later;
    `items`: the cells and other arrays, of a format that describes them, such as ONNX;
    `is_own`: whether rnnweights wrote it, which says the layout in it.
    """

    kind: str
    arrays: Sequence[Array]
    content: bytes = b""
    config: dict[str, Any] | None = None
    container: str = "layers"
    order: str = "none"
    optimizer: int = 0
    attributes: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    items: Sequence[Item] = ()
    is_own: bool = False


def check_claim(claimed: int, size: int) -> None:
    """Raises `Refusal` if a file of `size` bytes says that it holds much more: `claimed` bytes."""
    if claimed > INFLATION * size + SMALL:
        raise Refusal(
            f"its arrays should have {claimed:,} bytes, but the file has only {size:,}.",
            "use the complete file.",
        )


def numbers(name: str, values: Any) -> np.ndarray:
    """The `values` of the array `name`. Raises `Refusal` unless they are an array of numbers."""
    what = f"{name} is not an array of numbers"
    remedy = "save it as float32."
    if not isinstance(values, h5py.Dataset | np.ndarray):
        raise Refusal(f"{what}.", remedy)
    if values.dtype.kind not in "biufc":
        raise Refusal(f"{what} (type {values.dtype}).", remedy)
    return np.asarray(values)


def named(contents: Iterable[tuple[str, Any]]) -> list[Array]:
    """Arrays that have names alone, as Keras or torch gives them: the first part is the layer.

    `contents`: pairs of a name and values. Raises `Refusal` for values that are not numbers.
    """
    arrays = []
    for place, values in contents:
        name = re.sub(r":\d+$", "", place)
        if name in PARTS:
            name = f"rnn/{name}"
        layer, separator, _ = name.partition("/")
        if not separator:
            layer = ""
        array = Array(
            name,
            place,
            numbers(place, values),
            layer,
        )
        arrays.append(array)
    return tidy(arrays)


def tidy(arrays: Sequence[Array]) -> list[Array]:
    """The arrays of a layer with shorter names: without ``lstm_cell``, and with ``forward`` and
    ``backward`` for directions, as in ``both/forward/kernel``.

    If two arrays would have the same name, they keep their own names, or else those in the file.
    """
    tidied = []
    for array in arrays:
        name = IN_CELL.sub("", array.name)
        name = re.sub(r"/(forward|backward)_[^/]*(?=/)", r"/\1", name)
        name = name.lstrip("/")
        tidied.append(array._replace(name=name))

    if have_unique_names(tidied):
        return tidied
    if have_unique_names(arrays):
        return list(arrays)
    return [array._replace(name=f"{array.layer}/{array.place}") for array in arrays]


def have_unique_names(arrays: Sequence[Array]) -> bool:
    """Whether no two of the arrays have the same name."""
    names = {array.name for array in arrays}
    return len(names) == len(arrays)
