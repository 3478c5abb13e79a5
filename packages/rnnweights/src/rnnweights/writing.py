"""Converted checkpoints → the bytes of files.

A file of Keras stays what it is: the arrays of its recurrent cells and the classes of their layers
are replaced, everything else is kept. Other arrays become ``.npz``, safetensors or an HDF5 file for
``load_weights`` of Keras 2 and 3.
"""

from __future__ import annotations

import copy
import io
import json
import re
import zipfile
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import h5py
import numpy as np
import safetensors.numpy

from rnnweights.cells import PARTS, Array, Cell, Item, Refusal
from rnnweights.checkpoint import Checkpoint
from rnnweights.configuration import convert_classes
from rnnweights.keras_files import TOP_LEVEL, attributes_of, deepest, natural, texts
from rnnweights.layer_tree import nodes

# For a source without them.
VERSIONS = {
    "keras_version": "2.3.1",
    "backend": "tensorflow",
}
# The arrays of layers in Keras's order.
ORDERS = (
    PARTS,
    ("embeddings",),
    ("gamma", "beta", "moving_mean", "moving_variance"),
    ("depthwise_kernel", "pointwise_kernel", "bias"),
)
ATTRIBUTE_BYTES = 64000  # of HDF5


def arrays_of(items: Sequence[Item], layout: str | None) -> list[Array]:
    """All arrays, with the cells in a layout.

    `layout`: ``cudnn``, ``keras``, or None for the one that a cell has. Raises `Refusal` if two
    arrays have the same name.
    """
    arrays: list[Array] = []
    for item in items:
        if isinstance(item, Array):
            arrays.append(item)
            continue
        like = item.sources[0].place
        for part, values in item.in_layout(layout).items():
            place = re.sub(r"(bias|(recurrent_)?kernel)(?=:\d+$|$)", part, like)
            array = Array(
                f"{item.scope}/{part}",
                place,
                values,
                item.layer,
            )
            arrays.append(array)

    counts = Counter(array.name for array in arrays)
    for name, count in counts.items():
        if count > 1:
            raise Refusal(f"two arrays are called {name}.", "rename one.")
    return arrays


def npz(arrays: Sequence[Array], about: Mapping[str, str]) -> bytes:
    """The bytes of an ``.npz`` file.

    `about`: facts such as the order of the arrays, for the comment of the archive, which numpy.load
    does not read.
    """
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for array in arrays:
            member = f"{array.name}.npy"
            with archive.open(member, "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array.values, allow_pickle=False)
        archive.comment = json.dumps(about).encode()
    return content.getvalue()


def safetensors_file(arrays: Sequence[Array], about: Mapping[str, str]) -> bytes:
    """The bytes of a safetensors file.

    `about`: facts for its metadata, which also has the names in order, because the library sorts
    them.
    """
    contents = {}
    for array in arrays:
        contents[array.name] = array.values.copy(order="C")
    metadata = {**about, "names": json.dumps(list(contents))}
    return safetensors.numpy.save(contents, metadata)


def hdf5(arrays: Sequence[Array], order: str, versions: Mapping[str, str]) -> bytes:
    """The bytes of a file of weights in the format of Keras 2, for ``load_weights``.

    `order`: that of a `Checkpoint`; `versions`: of Keras and its backend. Raises `Refusal` if the
    order in which Keras loads the arrays is unknown.
    """
    layers: dict[str, list[Array]] = {}
    for array in arrays:
        layer = array.layer.replace("/", "_") or "layer"
        layers.setdefault(layer, []).append(array)
    if order == "none" and len(layers) > 1:
        names = ", ".join(layers)
        raise _unordered(f"its {len(layers)} layers ({names})")

    for layer, own in layers.items():
        if order != "arrays":
            own = _in_order(layer, own)
        layers[layer] = []
        for array in own:
            place = f"{array.name}:0"
            layers[layer].append(array._replace(place=place))

    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        for name, text in {**VERSIONS, **versions}.items():
            file.attrs[name] = text.encode()
        _write_layers(file, layers)
    return content.getvalue()


def _in_order(layer: str, arrays: Sequence[Array]) -> list[Array]:
    """The arrays of one layer in Keras's order. Raises `Refusal` if it is unknown."""
    scopes: dict[str, dict[str, Array]] = {}
    for array in sorted(arrays, key=lambda array: natural(array.name)):
        scopes.setdefault(array.scope, {})[array.part] = array
    directions = [scope.rpartition("/")[2] for scope in scopes]
    if len(scopes) > 1 and directions != ["forward", "backward"]:
        names = ", ".join(scopes)
        raise _unordered(f"the layers in {layer} ({names})")

    ordered: list[Array] = []
    for own in scopes.values():
        # By number, if the parts are numbered.
        parts = list(own)
        known = [order for order in ORDERS if set(parts) <= set(order)]
        is_numbered = all(part.startswith("var_") for part in parts)
        if known:
            parts.sort(key=known[0].index)
        elif len(parts) > 1 and not is_numbered:
            names = ", ".join(parts)
            raise _unordered(f"the arrays {names} of layer {layer}")
        ordered += [own[part] for part in parts]
    return ordered


def _unordered(what: str) -> Refusal:
    return Refusal(
        f"the order of {what} is not in the file, and Keras loads .h5 files in this order.",
        "write .npz or .safetensors, whose arrays have names.",
    )


def _write_layers(file: h5py.Group, layers: Mapping[str, Sequence[Array]]) -> None:
    """Writes or replaces layers, with each array at its place in its layer.

    Keras 2 decodes the names, Keras 3 does not mind.
    """
    for layer, arrays in layers.items():
        file.pop(layer, None)
        group = file.create_group(layer)
        places = []
        for array in arrays:
            group.create_dataset(array.place, data=array.values)
            places.append(array.place)
        _set_texts(group, "weight_names", places)
    names = [layer for layer in layers if layer != TOP_LEVEL]
    _set_texts(file, "layer_names", names)


def _set_texts(group: h5py.Group, name: str, values: Sequence[str]) -> None:
    """Writes an attribute with names as Keras does: a long one is divided into several."""
    for key in attributes_of(group, name):
        del group.attrs[key]

    encoded = np.array([value.encode() for value in values], dtype="S")
    if encoded.nbytes <= ATTRIBUTE_BYTES:
        group.attrs[name] = encoded
        return

    rows = ATTRIBUTE_BYTES // encoded.itemsize
    starts = range(0, len(encoded), rows)
    for number, start in enumerate(starts):
        end = start + rows
        group.attrs[f"{name}{number}"] = encoded[start:end]


def in_place(checkpoint: Checkpoint, items: Sequence[Item], layout: str | None) -> bytes:
    """The bytes of the file of a `checkpoint` of Keras with its cells in a layout, and with a
    configuration that Keras 3 reads.

    `layout`: ``cudnn``, ``keras``, or None for the one that a cell has. If arrays change, the state
    of the optimizer is dropped with the arguments of ``compile``, because it belongs to the old
    ones. Raises `Refusal` if the cells have no place in the file.
    """
    changed = []
    for item in items:
        if isinstance(item, Cell) and layout not in (None, item.layout):
            changed.append(item)

    config = copy.deepcopy(checkpoint.config)
    before = []
    if config:
        before = list(nodes(config, checkpoint.container))
        convert_classes(config, layout)
    if checkpoint.kind == ".h5":
        return _edited_keras_2(
            checkpoint,
            arrays_of(items, layout),
            config,
            bool(changed),
        )
    if config is None:
        renamed = _renamed(checkpoint, changed)
        return _edited_keras_3(checkpoint.content, changed, renamed)

    if changed:
        config.pop("compile_config", None)
    after = nodes(config, checkpoint.container)
    renamed = {}
    for old, new in zip(before, after, strict=True):
        renamed[old.place] = new.place

    content = io.BytesIO()
    source = zipfile.ZipFile(io.BytesIO(checkpoint.content))
    with zipfile.ZipFile(content, "w") as target:
        for name in source.namelist():
            data = source.read(name)
            if name == "config.json":
                data = json.dumps(config).encode()
            elif name == "model.weights.h5":
                data = _edited_keras_3(data, changed, renamed)
            target.writestr(name, data)
    return content.getvalue()


def _edited_keras_2(
    checkpoint: Checkpoint,
    arrays: Sequence[Array],
    config: dict[str, Any] | None,
    changed: bool,
) -> bytes:
    """The HDF5 file of Keras 2 with these arrays and this configuration. `changed`: whether the
    arrays are others than those of the `checkpoint`."""
    content = io.BytesIO(checkpoint.content)
    with h5py.File(content, "r+") as file:
        weights = file.get("model_weights", file)
        layers: dict[str, list[Array]] = {}
        for layer in texts(weights, "layer_names"):
            layers[layer] = []
        for array in arrays:
            layers.setdefault(array.layer, []).append(array)
        _write_layers(weights, layers)

        if changed:
            file.pop("optimizer_weights", None)
            file.attrs.pop("training_config", None)
        if config is not None:
            file.attrs["model_config"] = json.dumps(config).encode()

        for group in (file, weights):
            for name, value in list(group.attrs.items()):
                if isinstance(value, str):
                    group.attrs[name] = value.encode()
    return content.getvalue()


def _edited_keras_3(data: bytes, changed: Sequence[Cell], renamed: Mapping[str, str]) -> bytes:
    """The weights of Keras 3 with groups `renamed`, and with the `changed` cells, of CuDNN layers,
    where the cells of Keras's layers are."""
    replaced = set()
    for cell in changed:
        for array in cell.sources:
            replaced.add(array.place)

    def new(place: str) -> str:
        group = deepest(place, renamed)
        return renamed.get(group, "") + place.removeprefix(group)

    content = io.BytesIO()
    source = h5py.File(io.BytesIO(data))
    with source, h5py.File(content, "w") as target:
        places: list[str] = []
        source.visit(places.append)
        for place in places:
            item = source[place]
            if isinstance(item, h5py.Group):
                group = target.require_group(new(place))
                group.attrs.update(item.attrs)
            elif place not in replaced:
                source.copy(item, target, new(place))

        if changed:
            target.pop("optimizer", None)
            target.pop("metrics", None)
        for cell in changed:
            owner = new(cell.group)
            arrays = cell.in_layout("keras")
            for number, values in enumerate(arrays.values()):
                target[f"{owner}/cell/vars/{number}"] = values
    return content.getvalue()


def _renamed(checkpoint: Checkpoint, changed: Sequence[Cell]) -> dict[str, str]:
    """New names of groups that are named after CuDNN's classes. Raises `Refusal` if layers of
    Keras's class are beside them, because their numbers depend on the order of the layers."""
    renamed = {}
    for cell in changed:
        parent, _, owner = cell.group.rpartition("/")
        if not owner.startswith("cu_dnn"):
            continue
        kind = cell.kind.lower()
        beside = rf"{parent}/{kind}(_\d+)?/"
        for array in checkpoint.arrays:
            if re.match(beside, array.place):
                raise Refusal(
                    f"the order of {owner} and the layers of class {cell.kind} is not in the file.",
                    "save the model as .keras or .h5.",
                )
        new = owner.removeprefix("cu_dnn")
        renamed[cell.group] = f"{parent}/{new}"
    return renamed
