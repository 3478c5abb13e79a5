"""Checkpoint files (HDF5 of Keras 2 and tf.keras, ``.keras`` of Keras 3, canonical ``.npz``), and
the three layouts of the RNN cells in them.

`canonical` and `keras` are Keras's layout of LSTM and GRU (gates i, f, c, o and z, r, h); `cudnn`
is that of the CuDNNLSTM and CuDNNGRU layers of Keras 2: input matrices in cuDNN's order, recurrent
matrices transposed gate by gate, two biases in one row. Source: Keras 2's converter,
``preprocess_weights_for_loading``; tests in TensorFlow 1.15 compare the two.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np

from rnnbench.errors import RecordError
from rnnworker.kernels.legacy_cudnn import pack, unpack

LAYOUTS = ("cudnn", "keras", "canonical")
CUDNN = {4: "CuDNNLSTM", 3: "CuDNNGRU"}  # by the number of gates
# Without a version Keras assumes a file of Keras 1, whose layers had different arrays.
VERSION = {"keras_version": b"2.3.1", "backend": b"tensorflow"}
# The weights of an RNN cell, in the order in which Keras 3 numbers them.
CELL = ("kernel", "recurrent_kernel", "bias")


class Weight(NamedTuple):
    """One array and its name in the file, such as ``lstm/kernel:0``."""

    name: str
    array: np.ndarray

    @property
    def last(self) -> str:
        """The last part of the name, such as ``kernel``."""
        return self.name.rpartition("/")[2].partition(":")[0]


class Cell(NamedTuple):
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


class Layer(NamedTuple):
    """A layer with its `parts` in the order of the file; a bidirectional layer has two cells."""

    name: str
    parts: tuple[Weight | Cell, ...]


def read_weights(path: Path) -> list[Layer]:
    """The layers of a checkpoint that have weights, in the order of the model. Raises a
    `RecordError` if the file is not one, or has links to other files."""
    if path.name.endswith(".weights.h5"):
        raise RecordError(
            "does not contain the order of the layers.",
            where=str(path),
            remedy="save the model as .keras, which contains it.",
        )
    readers = {".keras": _keras_3, ".npz": _canonical}
    try:
        layers = readers.get(path.suffix, _keras_2)(path)
        return [Layer(name, tuple(_parts(weights))) for name, weights in layers if weights]
    except RecordError:
        raise
    except Exception as error:  # h5py, NumPy and zipfile raise many types
        raise RecordError(
            f"cannot be read as a Keras checkpoint ({error}).",
            where=str(path),
            remedy="use an .h5 file of save_weights or save, a .keras file, or an .npz file of "
            "`rnnbench weights`.",
        ) from error


def bytes_of(layers: Sequence[Layer], layout: str) -> bytes:
    """A file of `layers` in one of `LAYOUTS`: canonical is ``.npz``, the others are an HDF5 file of
    Keras 2, which ``load_weights`` of Keras 2 and 3 reads (if its name ends in .h5, but not in
    .weights.h5)."""
    content = io.BytesIO()
    if layout == "canonical":
        arrays: dict[str, Any] = {name: array for layer in layers for name, array in _named(layer)}
        np.savez(content, **arrays)
        return content.getvalue()
    with h5py.File(content, "w") as file:
        file.attrs.update(VERSION)
        file.attrs["layer_names"] = np.array([layer.name.encode() for layer in layers])
        for layer in layers:
            group = file.create_group(layer.name)
            weights = [
                weight
                for part in layer.parts
                for weight in (in_layout(part, layout) if isinstance(part, Cell) else [part])
            ]
            group.attrs["weight_names"] = np.array([weight.name.encode() for weight in weights])
            for weight in weights:
                group.create_dataset(weight.name, data=weight.array)
    return content.getvalue()


def _keras_2(path: Path) -> Iterator[tuple[str, list[Weight]]]:
    with _hdf5(path) as whole:
        file = whole.get("model_weights", whole)
        for name in map(_text, file.attrs["layer_names"]):
            group = file[name]
            names = map(_text, group.attrs["weight_names"])
            yield name, [_weight(key, group[key]) for key in names]


def _keras_3(path: Path) -> Iterator[tuple[str, list[Weight]]]:
    with zipfile.ZipFile(path) as archive:
        config = json.loads(archive.read("config.json"))["config"]
        data = io.BytesIO(archive.read("model.weights.h5"))
    counts: Counter[str] = Counter()
    with _hdf5(data) as file:
        for layer in config["layers"]:
            # Keras's conversion to snake case.
            kind = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", layer["class_name"])
            kind = re.sub("([a-z])([A-Z])", r"\1_\2", kind).lower()
            key = f"layers/{kind}_{counts[kind]}" if counts[kind] else f"layers/{kind}"
            counts[kind] += 1
            if key in file:
                name = layer["config"]["name"]
                yield name, list(_of_group(file[key], name))


def _of_group(group: Any, name: str) -> Iterator[Weight]:
    if "cell" in group:
        yield from _numbered(group["cell"]["vars"], name, CELL)
    for direction in ("forward", "backward"):
        if f"{direction}_layer" in group:
            yield from _of_group(group[f"{direction}_layer"], f"{name}/{direction}")
    if "vars" in group:
        yield from _numbered(group["vars"], name, ())


def _numbered(values: Any, name: str, known: Sequence[str]) -> Iterator[Weight]:
    for index, key in enumerate(sorted(values, key=int)):
        last = known[index] if index < len(known) else f"var_{key}"
        yield _weight(f"{name}/{last}:0", values[key])


def _canonical(path: Path) -> Iterator[tuple[str, list[Weight]]]:
    weights: dict[str, list[Weight]] = {}
    with np.load(path, allow_pickle=False) as file:
        for key in file.files:
            weights.setdefault(key.partition("/")[0], []).append(_weight(f"{key}:0", file[key]))
    yield from weights.items()


@contextmanager
def _hdf5(source: Any) -> Iterator[h5py.File]:
    """An HDF5 file without links to other files, which reading would follow."""
    with h5py.File(source) as file:
        link = file.visititems_links(
            lambda name, link: name if isinstance(link, h5py.ExternalLink) else None
        )
        if link is not None:
            raise ValueError(f"{link} is a link to another file")
        yield file


def _weight(name: str, values: Any) -> Weight:
    """Raises ValueError if `values` is no array of numbers, or if its bytes are in another file."""
    if isinstance(values, h5py.Dataset) and (values.external or values.is_virtual):
        raise ValueError(f"the bytes of {name} are in another file")
    if not isinstance(values, h5py.Dataset | np.ndarray) or values.dtype.kind in "OSU":
        raise ValueError(f"{name} is not an array of numbers")
    return Weight(name, np.asarray(values))


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _named(layer: Layer) -> Iterator[tuple[str, np.ndarray]]:
    """The layer's arrays with their names in a canonical file, such as ``both/backward/bias``."""
    bidirectional = sum(isinstance(part, Cell) for part in layer.parts) == 2
    prefixes = iter(("forward/", "backward/") if bidirectional else ("",) * len(layer.parts))
    for part in layer.parts:
        if isinstance(part, Weight):
            yield f"{layer.name}/{part.last}", part.array
            continue
        prefix = next(prefixes)
        for name, array in zip(CELL, (part.kernel, part.recurrent, part.bias), strict=True):
            if array is not None:
                yield f"{layer.name}/{prefix}{name}", array


def _parts(weights: Sequence[Weight]) -> Iterator[Weight | Cell]:
    """The weights of a layer, with the arrays of each RNN cell grouped into a `Cell`."""
    while weights:
        if len(weights) > 1 and "recurrent_kernel" in weights[1].name:
            count = 3 if len(weights) > 2 and weights[2].last == "bias" else 2
            yield _cell(weights[:count])
            weights = weights[count:]
        else:
            yield weights[0]
            weights = weights[1:]


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
    arrays = _for_cudnn(cell) if layout == "cudnn" else [cell.kernel, cell.recurrent, cell.bias]
    names = [*cell.names, cell.names[0].replace("kernel", "bias")]
    pairs = zip(names, arrays, strict=False)
    return [Weight(name, array) for name, array in pairs if array is not None]


def _for_cudnn(cell: Cell) -> list[np.ndarray | None]:
    form, bias, width = CUDNN.get(cell.gates), cell.bias, cell.recurrent.shape[1]
    if form is None or (form == "CuDNNGRU" and bias is not None and bias.ndim != 2):
        reason = "has no gates" if form is None else "applies the reset gate before the product"
        raise RecordError(
            f"{cell.names[0]}: the cell {reason}; the CuDNN layers of Keras 2 do not support this.",
            where="weights",
            remedy="convert with --to keras or --to canonical.",
        )
    if bias is None:
        bias = np.zeros(width if form == "CuDNNLSTM" else (2, width), cell.kernel.dtype)
    if form == "CuDNNLSTM":
        bias = np.stack([bias / 2, bias / 2])  # halved, as by Keras's converter
    return list(pack(form, {"kernel": cell.kernel, "recurrent": cell.recurrent, "bias": bias}))
