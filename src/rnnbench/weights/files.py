"""Checkpoint files: HDF5 of Keras 2 and tf.keras, ``.keras`` of Keras 3, canonical ``.npz``."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from rnnbench.errors import RecordError
from rnnbench.weights.layers import Cell, Layer, Weight, group_cells, in_layout

LAYOUTS = ("cudnn", "keras", "canonical")
# Without a version Keras assumes a file of Keras 1, whose layers had different arrays.
VERSION = {"keras_version": b"2.3.1", "backend": b"tensorflow"}
# The weights of a Keras 3 RNN cell, in the order in which they are numbered.
CELL = ("kernel", "recurrent_kernel", "bias")
DIRECTIONS = ("forward_layer", "backward_layer")


def read_weights(path: Path) -> list[Layer]:
    """The layers of a checkpoint that have weights, in the order of the model."""
    with _readable(path):
        if path.name.endswith(".weights.h5"):
            raise RecordError(
                "does not contain the order of the layers.",
                where=str(path),
                remedy="save the model as .keras, which contains it.",
            )
        if path.suffix == ".keras":
            return list(_keras_3(path))
        if path.suffix == ".npz":
            return _canonical(path)
        with _hdf5(path) as file:
            return list(_keras_2(file.get("model_weights", file)))


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


def _keras_2(file: Any) -> Iterator[Layer]:
    for name in map(_text, file.attrs["layer_names"]):
        group = file[name]
        names = list(map(_text, group.attrs["weight_names"]))
        if names:
            yield group_cells(name, [_weight(key, group[key]) for key in names])


def _keras_3(path: Path) -> Iterator[Layer]:
    with zipfile.ZipFile(path) as archive:
        config = json.loads(archive.read("config.json"))["config"]
        data = io.BytesIO(archive.read("model.weights.h5"))
    counts: Counter[str] = Counter()
    with _hdf5(data) as file:
        for layer in config["layers"]:
            kind = _snake(layer["class_name"])
            count = counts[kind]
            counts[kind] += 1
            key = f"layers/{kind}_{count}" if count else f"layers/{kind}"
            name = layer["config"]["name"]
            if key in file and (weights := list(_of_group(file[key], name))):
                yield group_cells(name, weights)


def _of_group(group: Any, name: str) -> Iterator[Weight]:
    if "cell" in group:
        yield from _numbered(group["cell"]["vars"], name, CELL)
    for direction in DIRECTIONS:
        if direction in group:
            yield from _of_group(group[direction], f"{name}/{direction.partition('_')[0]}")
    if "vars" in group and len(group["vars"]):
        yield from _numbered(group["vars"], name, ())


def _numbered(values: Any, name: str, known: Sequence[str]) -> Iterator[Weight]:
    for index, key in enumerate(sorted(values, key=int)):
        last = known[index] if index < len(known) else f"var_{key}"
        yield _weight(f"{name}/{last}:0", values[key])


def _canonical(path: Path) -> list[Layer]:
    weights: dict[str, list[Weight]] = {}
    with np.load(path, allow_pickle=False) as file:
        for key in file.files:
            name = key.partition("/")[0]
            weights.setdefault(name, []).append(_weight(f"{key}:0", file[key]))
    return [group_cells(name, group) for name, group in weights.items()]


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


def _named(layer: Layer) -> Iterator[tuple[str, np.ndarray]]:
    """The layer's arrays with their names in a canonical file, such as ``both/backward/bias``."""
    bidirectional = sum(isinstance(part, Cell) for part in layer.parts) == 2
    prefixes = iter(("forward/", "backward/") if bidirectional else ("",) * len(layer.parts))
    for part in layer.parts:
        if isinstance(part, Weight):
            last = part.name.rpartition("/")[2].partition(":")[0]
            yield f"{layer.name}/{last}", part.array
            continue
        prefix = next(prefixes)
        for name, array in zip(CELL, (part.kernel, part.recurrent, part.bias), strict=True):
            if array is not None:
                yield f"{layer.name}/{prefix}{name}", array


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except RecordError:
        raise
    except Exception as error:  # h5py, NumPy and zipfile raise many types
        raise RecordError(
            f"cannot be read as a Keras checkpoint ({error}).",
            where=str(path),
            remedy="use an .h5 file of save_weights or save, a .keras file, or an .npz file of "
            "`rnnbench weights`.",
        ) from error


def _snake(name: str) -> str:
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
