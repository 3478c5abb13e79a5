"""Checkpoints as files: HDF5 of Keras 2 and tf.keras, ``.keras`` of Keras 3, canonical ``.npz``."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from rnnbench.errors import RecordError
from rnnbench.weights.layers import Cell, Layer, Weight, in_layout, told_apart

LAYOUTS = ("cudnn", "keras", "canonical")
# Without a version Keras takes a file for one of Keras 1, whose layers had other arrays.
VERSION = {"keras_version": b"2.3.1", "backend": b"tensorflow"}
# Of a Keras 3 layer: the weights by number, as its class makes them.
CELL = ("kernel", "recurrent_kernel", "bias")
DIRECTIONS = ("forward_layer", "backward_layer")


def read_weights(path: Path) -> list[Layer]:
    """The layers of a checkpoint that have weights, in the model's order."""
    with _readable(path):
        if path.name.endswith(".weights.h5"):
            raise RecordError(
                "does not say in which order its layers stand.",
                where=str(path),
                remedy="save the model as .keras, which does.",
            )
        if path.suffix == ".keras":
            return list(_keras_3(path))
        if path.suffix == ".npz":
            return _canonical(path)
        with h5py.File(path) as file:
            return list(_keras_2(file.get("model_weights", file)))


def write_weights(layers: Sequence[Layer], path: Path, layout: str) -> None:
    """Writes `layers` in one of `LAYOUTS`: canonical as ``.npz``, the others as Keras 2's HDF5 of
    weights, which ``load_weights`` of Keras 2 and 3 reads (where its name ends in .h5, and not in
    .weights.h5)."""
    if layout == "canonical":
        arrays: dict[str, Any] = {name: array for layer in layers for name, array in _named(layer)}
        np.savez(path, **arrays)
        return
    with h5py.File(path, "w") as file:
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


def _keras_2(file: Any) -> Iterator[Layer]:
    for name in map(_text, file.attrs["layer_names"]):
        group = file[name]
        names = list(map(_text, group.attrs["weight_names"]))
        if names:
            yield told_apart(name, [Weight(one, np.asarray(group[one])) for one in names])


def _keras_3(path: Path) -> Iterator[Layer]:
    with zipfile.ZipFile(path) as archive:
        config = json.loads(archive.read("config.json"))["config"]
        data = io.BytesIO(archive.read("model.weights.h5"))
    used: dict[str, int] = {}
    with h5py.File(data) as file:
        for layer in config["layers"]:
            kind = _snake(layer["class_name"])
            count = used.get(kind, 0)
            used[kind] = count + 1
            key = f"layers/{kind}_{count}" if count else f"layers/{kind}"
            name = layer["config"]["name"]
            if key in file and (weights := list(_of_group(file[key], name))):
                yield told_apart(name, weights)


def _of_group(group: Any, name: str) -> Iterator[Weight]:
    if "cell" in group:
        yield from _numbered(group["cell"]["vars"], name, CELL)
    for direction in DIRECTIONS:
        if direction in group:
            yield from _of_group(group[direction], f"{name}/{direction.partition('_')[0]}")
    if "vars" in group and len(group["vars"]):
        yield from _numbered(group["vars"], name, ())


def _numbered(values: Any, name: str, known: Sequence[str]) -> Iterator[Weight]:
    for place, key in enumerate(sorted(values, key=int)):
        last = known[place] if place < len(known) else f"var_{key}"
        yield Weight(f"{name}/{last}:0", np.asarray(values[key]))


def _canonical(path: Path) -> list[Layer]:
    found: dict[str, list[Weight]] = {}
    with np.load(path, allow_pickle=False) as file:
        for key in file.files:
            name = key.partition("/")[0]
            found.setdefault(name, []).append(Weight(f"{key}:0", file[key]))
    return [told_apart(name, weights) for name, weights in found.items()]


def _named(layer: Layer) -> Iterator[tuple[str, np.ndarray]]:
    """Names of a canonical file: ``lstm/kernel``, ``both/backward/bias``, ``dense/var_0``."""
    both = sum(isinstance(part, Cell) for part in layer.parts) == 2
    ways = iter(("forward/", "backward/") if both else ("",) * len(layer.parts))
    for part in layer.parts:
        if isinstance(part, Weight):
            last = part.name.rpartition("/")[2].partition(":")[0]
            yield f"{layer.name}/{last}", part.array
            continue
        way = next(ways)
        for name, array in zip(CELL, (part.kernel, part.recurrent, part.bias), strict=True):
            if array is not None:
                yield f"{layer.name}/{way}{name}", array


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise RecordError(
            f"cannot be read as a checkpoint of Keras ({error}).",
            where=str(path),
            remedy="name an .h5 of save_weights or save, a .keras, or an .npz that `rnnbench "
            "weights` wrote.",
        ) from error


def _snake(name: str) -> str:
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
