"""Files of Keras: HDF5 of Keras 2 and 3, and ``.keras``."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import h5py
import numpy as np

from rnnbench.checkpoints.checkpoint import Checkpoint, check_claim, numbers, tidy
from rnnbench.checkpoints.kinds import SAVEZ
from rnnbench.weights.cells import DIRECTIONS, PARTS, Array, Refusal
from rnnbench.weights.layer_tree import CONTAINERS, Node, check_model, is_recurrent, nodes
from rnnworker.recurrent.checkpoint_layouts import cell_of

STATE = ("/optimizer/", "/metrics/")  # of training, in files of Keras 3 and 2.13


def read_hdf5(content: bytes) -> Checkpoint:
    """The checkpoint in an HDF5 file of Keras 2 or 3."""
    with opened(content) as file:
        if "model_weights" in file or "layer_names" in file.attrs or "layer_names0" in file.attrs:
            return _of_keras_2(file, content)
        return _of_keras_3(file, content, None)


def read_archive(content: bytes) -> Checkpoint:
    """The checkpoint in a ``.keras`` file."""
    with zipfile.ZipFile(io.BytesIO(content)) as members:
        claimed = sum(entry.file_size for entry in members.infolist())
        check_claim(claimed, len(content))
        config = json.loads(members.read("config.json"))
        metadata = {}
        if "metadata.json" in members.namelist():
            metadata = json.loads(members.read("metadata.json"))
        weights = members.read("model.weights.h5")

    check_model(config)
    with opened(weights) as file:
        checkpoint = _of_keras_3(file, content, config)
    return replace(
        checkpoint,
        kind=".keras",
        config=config,
        attributes={"keras_version": str(metadata.get("keras_version"))},
    )


@contextmanager
def opened(content: bytes) -> Iterator[h5py.File]:
    """An HDF5 file without links to other files, which reading would follow, and without claims
    that its size contradicts. Raises `Refusal`."""
    remedy = "save the model in one file."
    with h5py.File(io.BytesIO(content)) as file:
        claimed = 0

        def check(name: str, link: object) -> None:
            nonlocal claimed
            if isinstance(link, h5py.ExternalLink):
                raise Refusal(f"{name} is a link to another file.", remedy)
            if not isinstance(link, h5py.HardLink):
                return
            found = file[name]
            if isinstance(found, h5py.Dataset):
                claimed += found.size * found.dtype.itemsize
                if found.external or found.is_virtual:
                    raise Refusal(f"the bytes of {name} are in another file.", remedy)

        file.visititems_links(check)
        check_claim(claimed, len(content))
        yield file


def texts(group: h5py.Group, name: str) -> list[str]:
    """An attribute with names, which Keras divides into several if it is long."""
    parts = []
    if name in group.attrs:
        parts.append(group.attrs[name])
    while f"{name}{len(parts)}" in group.attrs:
        parts.append(group.attrs[f"{name}{len(parts)}"])

    found = []
    for part in parts:
        found += [_decoded(text) for text in part]
    return found


def _decoded(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _datasets(file: h5py.File) -> list[str]:
    """The places of all arrays."""
    found: list[str] = []

    def visit(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset):
            found.append(item.name)

    file.visititems(visit)
    return found


def _of_keras_2(file: h5py.File, content: bytes) -> Checkpoint:
    """A file whose attributes name the layers and their arrays, in order."""
    root = "model_weights/" if "model_weights" in file else ""
    weights = file[root or "/"]
    layers = texts(weights, "layer_names")
    if "top_level_model_weights" in weights:
        layers.append("top_level_model_weights")

    arrays: list[Array] = []
    for layer in dict.fromkeys(layers):
        own = []
        for key in texts(weights[layer], "weight_names"):
            _, found, after = f"/{key}".partition(f"/{layer}/")
            name = after if found else key
            name = re.sub(r":\d+$", "", f"{layer}/{name}")
            values = numbers(name, weights[layer][key])
            own.append(Array(name, key, values, layer))
        arrays += tidy(own)
    if any(re.search(r"_[WU](_[a-z])?$", array.name) for array in arrays):
        raise Refusal(
            f"it is a file of Keras 1 (with arrays such as {arrays[0].name}).",
            "load and save the model once with Keras 2.0 to 2.2.",
        )

    places = {f"/{root}{array.layer}/{array.place}" for array in arrays}
    optimizer = 0
    lost = []
    for place in _datasets(file):
        if place.startswith("/optimizer_weights"):
            optimizer += 1
        elif place not in places:
            lost.append(place)
    if lost:
        raise Refusal(f"no layer names its array {min(lost)}.", "use a file that Keras wrote.")

    attributes = {}
    for name in ("keras_version", "backend"):
        if name in weights.attrs:
            attributes[name] = _decoded(weights.attrs[name])
    config = file.attrs.get("model_config")
    if config is not None:
        config = json.loads(_decoded(config))
    if config is not None:
        check_model(config)
    return Checkpoint(".h5", arrays, content, config, "arrays", optimizer, attributes)


def _of_keras_3(file: h5py.File, content: bytes, config: dict[str, Any] | None) -> Checkpoint:
    """A file in which the place of an array says to which layer it belongs."""
    container = CONTAINERS[CONTAINERS[1] in file]
    tree = list(nodes(config, container)) if config else []
    groups: dict[str, list[str]] = {}
    optimizer = 0
    for place in _datasets(file):
        if place.startswith(STATE):
            optimizer += 1
        else:
            group, _, key = place.strip("/").rpartition("/")
            groups.setdefault(group, []).append(key)
    if not any("vars" in group for group in groups):
        raise Refusal("it is an HDF5 file, but not a checkpoint of Keras.", SAVEZ)

    arrays: list[Array] = []
    for group in sorted(groups, key=lambda group: (_deepest(group, tree)[0], natural(group))):
        _, node = _deepest(group, tree)
        keys = sorted(groups[group], key=natural)
        values = [numbers(group, file[group][key]) for key in keys]
        scope = _scope(group, node)
        layer = scope.partition("/")[0]
        is_cell = _is_cell(group, keys, values, node)
        for number, key in enumerate(keys):
            part = PARTS[number] if is_cell else f"var_{key}"
            arrays.append(Array(f"{scope}/{part}", f"{group}/{key}", values[number], layer))
    if len({array.name for array in arrays}) < len(arrays):
        arrays = [array._replace(name=array.place) for array in arrays]

    order = "layers" if len(tree) > 1 else "none"
    return Checkpoint(".weights.h5", arrays, content, None, order, optimizer)


def _deepest(group: str, tree: Sequence[Node]) -> tuple[int, Node | None]:
    """The number and the node of the layer that has the arrays in `group`."""
    best = 0
    found: Node | None = None
    for number, node in enumerate(tree):
        inside = not node.place or f"{group}/".startswith(f"{node.place}/")
        if inside and (found is None or len(node.place) > len(found.place)):
            best = number
            found = node
    return best, found


def _is_cell(
    group: str,
    keys: Sequence[str],
    values: Sequence[np.ndarray],
    node: Node | None,
) -> bool:
    """Whether the arrays are those of a recurrent cell: the configuration says it, the name does,
    or all shapes are those of a CuDNN layer."""
    if list(keys) not in (["0", "1"], ["0", "1", "2"]):
        return False
    owner = group.removesuffix("/vars")
    if node is not None and is_recurrent(node):
        return owner == node.arrays

    *above, last = owner.split("/")
    if last in ("cell", "forward_layer", "backward_layer") or last.startswith("cu_dnn"):
        return True
    if above[-1:] == ["cells"]:
        return True

    if len(keys) != 3 or cell_of(values[1]) not in ("lstm", "gru"):
        return False
    kernel, recurrent, bias = (each.shape for each in values)
    columns = recurrent[1]
    return kernel[1:] == (columns,) and bias == (2 * columns,)


def _scope(group: str, node: Node | None) -> str:
    """The name of the layer with the arrays in `group`, from the configuration where it has one."""
    names: list[str] = []
    rest = group
    if node is not None:
        names += node.names
        rest = group.removeprefix(node.place)
    for part in rest.strip("/").split("/"):
        if part in (*CONTAINERS, "vars", "cell", ""):
            continue
        direction = part.removesuffix("_layer")
        names.append(direction if direction in DIRECTIONS else part)
    return "/".join(names) or "model"


def natural(text: str) -> list[tuple[str, int]]:
    """Sorts ``lstm_2`` before ``lstm_10``, and ``forward`` before ``backward``."""
    parts = re.split(r"(\d+)", text.replace("/backward", "/gackward"))
    return [("", int(part)) if part.isdigit() else (part, 0) for part in parts]
