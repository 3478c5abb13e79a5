"""A checkpoint that was read, and what all of its formats need: checks of values and sizes, and the
names of arrays."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import h5py
import numpy as np

from rnnbench.weights.cells import PARTS, Array, Refusal
from rnnbench.weights.layer_tree import CONTAINERS

# What a file holds at most in memory: times its size, and bytes besides.
INFLATION = 100
SMALL = 2**20
CELL = re.compile(r"(lstm|gru|simple_rnn)_cell(_\d+)?")


@dataclass(frozen=True)
class Checkpoint:
    """The arrays of a file.

    `kind`: how the arrays are stored, such as ``.keras`` or ``torch``;
    `content`: the bytes of a file of Keras, ``.npz`` or safetensors;
    `config`: the model's configuration, if the file has one;
    `order`: whether the file has that of the ``layers``, also of the ``arrays`` in a layer, or
    ``none``;
    `optimizer`: the number of arrays of the optimizer and the metrics, which are not in `arrays`;
    `attributes`: the versions of Keras and its backend.
    """

    kind: str
    arrays: Sequence[Array]
    content: bytes = b""
    config: dict[str, Any] | None = None
    order: str = "none"
    optimizer: int = 0
    attributes: Mapping[str, str] = field(default_factory=dict)

    @property
    def container(self) -> str:
        """The group that has the layers of a model in a file of Keras 3, or of Keras 2.13."""
        of_keras_3, of_keras_2 = CONTAINERS
        if any(of_keras_2 in array.place for array in self.arrays):
            return of_keras_2
        return of_keras_3


def check_claim(claimed: int, size: int) -> None:
    """Raises `Refusal` if a file of `size` bytes says that it holds much more: `claimed` bytes."""
    if claimed > INFLATION * size + SMALL:
        raise Refusal(
            f"its arrays should have {claimed:,} bytes, but the file has only {size:,}.",
            "use the complete file.",
        )


def numbers(name: str, values: Any) -> np.ndarray:
    """The `values` of the array `name`. Raises `Refusal` unless they are an array of numbers."""
    remedy = "save it as float32."
    if not isinstance(values, h5py.Dataset | np.ndarray):
        raise Refusal(f"{name} is not an array of numbers.", remedy)
    if values.dtype.kind not in "biufc":
        raise Refusal(f"{name} is not an array of numbers (type {values.dtype}).", remedy)
    return np.asarray(values)


def named(contents: Sequence[tuple[str, np.ndarray]]) -> list[Array]:
    """Arrays that have names alone, as Keras or torch gives them: the first part is the layer."""
    arrays = []
    for place, values in contents:
        name = re.sub(r":\d+$", "", place)
        if name in PARTS:
            name = f"rnn/{name}"
        layer = name.partition("/")[0] if "/" in name else ""
        arrays.append(Array(name, place, values, layer))
    return tidy(arrays)


def tidy(arrays: Sequence[Array]) -> list[Array]:
    """The arrays of a layer named without ``lstm_cell``, and with ``forward`` and ``backward`` for
    directions, unless two of them would have one name."""
    tidied = []
    for array in arrays:
        layer, *scopes = array.scope.split("/")
        if scopes and CELL.fullmatch(scopes[-1]):
            scopes.pop()
        kept = [layer]
        for scope in scopes:
            kept.append(re.sub(r"^(forward|backward)_.*", r"\1", scope))
        name = "/".join([*kept, array.part]).lstrip("/")
        tidied.append(array._replace(name=name))

    if len({array.name for array in tidied}) == len(arrays):
        return tidied
    if len({array.name for array in arrays}) == len(arrays):
        return list(arrays)
    return [array._replace(name=f"{array.layer}/{array.place}") for array in arrays]
