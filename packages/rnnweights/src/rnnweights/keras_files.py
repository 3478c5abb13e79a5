"""Files of Keras: HDF5 of Keras 2 and 3, and ``.keras``.

In a file of Keras 2, attributes name the layers, and the arrays of each layer in order. Only a file
with a whole model has the first group and the configuration, as the attribute ``model_config``::

    model_weights                       layer_names: lstm, dense
        lstm                            weight_names: lstm/lstm_cell/kernel:0, …
            lstm/lstm_cell/kernel:0     an array
    optimizer_weights

In a file of Keras 3, groups are named after the classes of layers, and the arrays are numbered::

    layers                              or _layer_checkpoint_dependencies, of Keras 2.13
        lstm
            cell
                vars
                    0                   an array
        lstm_1                          the second layer of this class
    optimizer

A ``.keras`` file is a ZIP archive with ``config.json``, ``metadata.json`` and such a file.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import h5py
import numpy as np

from rnnweights.cells import DIRECTIONS, PARTS, Array, Refusal
from rnnweights.checkpoint import (
    Checkpoint,
    check_claim,
    have_unique_names,
    numbers,
    tidy,
)
from rnnweights.checkpoint_layouts import cell_of
from rnnweights.kinds import SAVEZ
from rnnweights.layer_tree import (
    CONTAINERS,
    OF_CELL,
    UNNAMED,
    Node,
    check_model,
    is_recurrent,
    nodes,
)

STATE = ("optimizer/", "metrics/")  # of training, in files of Keras 3 and 2.13
TOP_LEVEL = "top_level_model_weights"  # a group of arrays of the model itself, in files of Keras 2


def read_hdf5(content: bytes) -> Checkpoint:
    """The checkpoint in an HDF5 file of Keras 2 or 3.

    `content`: the bytes of the file. Raises `Refusal` for a file of Keras 1, and one that has no
    arrays of Keras.
    """
    with opened(content) as file:
        if "model_weights" in file or attributes_of(file, "layer_names"):
            return _of_keras_2(file, content)
        return _of_keras_3(
            file,
            ".weights.h5",
            content,
            config=None,
            attributes={},
        )


def read_archive(content: bytes) -> Checkpoint:
    """The checkpoint in a ``.keras`` file.

    `content`: the bytes of the file. Raises `Refusal` if its configuration describes no layers.
    """
    with zipfile.ZipFile(io.BytesIO(content)) as members:
        claimed = sum(entry.file_size for entry in members.infolist())
        check_claim(claimed, len(content))

        config = json.loads(members.read("config.json"))
        metadata = {}
        if "metadata.json" in members.namelist():
            metadata = json.loads(members.read("metadata.json"))
        weights = members.read("model.weights.h5")

    check_model(config)
    version = metadata.get("keras_version")
    with opened(weights) as file:
        return _of_keras_3(
            file,
            ".keras",
            content,
            config,
            attributes={"keras_version": str(version)},
        )


@contextmanager
def opened(content: bytes) -> Iterator[h5py.File]:
    """An HDF5 file without links to other files, which reading would follow, and without claims
    that its size contradicts. Raises `Refusal`."""
    remedy = "save the model in one file."
    with h5py.File(io.BytesIO(content)) as file:
        names: list[str] = []
        file.visit_links(names.append)

        for name in names:
            link = file.get(name, getlink=True)
            if isinstance(link, h5py.ExternalLink):
                raise Refusal(f"{name} is a link to another file.", remedy)

        claimed = 0
        for place in _datasets(file):
            dataset = file[place]
            claimed += dataset.nbytes
            if dataset.external or dataset.is_virtual:
                raise Refusal(f"the bytes of {place} are in another file.", remedy)

        check_claim(claimed, len(content))
        yield file


def texts(group: h5py.Group, name: str) -> list[str]:
    """The names that Keras 2 lists in an attribute of a group, in order.

    `name`: of the attribute, ``layer_names`` or ``weight_names``.
    """
    found = []
    for key in attributes_of(group, name):
        for text in group.attrs[key]:
            found.append(_decoded(text))
    return found


def attributes_of(group: h5py.Group, name: str) -> list[str]:
    """The attribute `name`, or the numbered ones that Keras divides it into if it is long."""
    keys = [key for key in group.attrs if re.fullmatch(rf"{name}\d*", key)]
    return sorted(keys, key=natural)


def _decoded(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode()
    return str(value)


def _datasets(file: h5py.File) -> list[str]:
    """The places of all arrays."""
    places: list[str] = []
    file.visit(places.append)

    found = []
    for place in places:
        if isinstance(file[place], h5py.Dataset):
            found.append(place)
    return found


def _of_keras_2(file: h5py.File, content: bytes) -> Checkpoint:
    """A file whose attributes name the layers and their arrays, in order."""
    weights = file.get("model_weights", file)
    layers = texts(weights, "layer_names")
    if TOP_LEVEL in weights:
        layers.append(TOP_LEVEL)

    arrays: list[Array] = []
    places = set()
    for layer in dict.fromkeys(layers):
        own = _arrays_of_layer(weights[layer], layer)
        arrays += tidy(own)
        for array in own:
            dataset = weights[layer][array.place]
            places.add(dataset.name)

    for array in arrays:
        if re.search(r"_[WU](_[a-z])?$", array.name):
            raise Refusal(
                f"it is a file of Keras 1 (with arrays such as {arrays[0].name}).",
                "load and save the model once with Keras 2.0 to 2.2.",
            )

    optimizer = 0
    lost = []
    for place in _datasets(file):
        if place.startswith("optimizer_weights"):
            optimizer += 1
        elif f"/{place}" not in places:
            lost.append(place)
    if lost:
        raise Refusal(f"no layer names its array /{min(lost)}.", "use a file that Keras wrote.")

    attributes = {}
    for name in ("keras_version", "backend"):
        if name in weights.attrs:
            attributes[name] = _decoded(weights.attrs[name])
    config = None
    if "model_config" in file.attrs:
        text = _decoded(file.attrs["model_config"])
        config = json.loads(text)
        check_model(config)

    return Checkpoint(
        ".h5",
        arrays,
        content,
        config,
        order="arrays",
        optimizer=optimizer,
        attributes=attributes,
    )


def _arrays_of_layer(group: h5py.Group, layer: str) -> list[Array]:
    """The arrays of a layer of Keras 2 from its group, in their order."""
    arrays = []
    for key in texts(group, "weight_names"):
        # Without the scopes above the layer.
        _, found, after = f"/{key}".partition(f"/{layer}/")
        name = after if found else key
        name = re.sub(r":\d+$", "", f"{layer}/{name}")
        array = Array(
            name,
            key,
            numbers(name, group[key]),
            layer,
        )
        arrays.append(array)
    return arrays


def _of_keras_3(
    file: h5py.File,
    kind: str,
    content: bytes,
    config: dict[str, Any] | None,
    attributes: Mapping[str, str],
) -> Checkpoint:
    """A file in which the place of an array says to which layer it belongs. The arguments after
    `file` are those of the `Checkpoint`."""
    container, of_keras_2 = CONTAINERS
    if of_keras_2 in file:
        container = of_keras_2
    groups: dict[str, list[str]] = {}
    optimizer = 0
    for place in _datasets(file):
        if place.startswith(STATE):
            optimizer += 1
        else:
            group, _, key = place.rpartition("/")
            groups.setdefault(group, []).append(key)
    if not any("vars" in group for group in groups):
        raise Refusal("it is an HDF5 file, but not a checkpoint of Keras.", SAVEZ)

    # Without a configuration, one node without a name has all groups.
    tree = {}
    owned: dict[str, list[str]] = {}
    for node in nodes(config or {}, container):
        tree[node.place] = node
        owned[node.place] = []
    for group in sorted(groups, key=natural):
        owner = deepest(group, tree)
        owned[owner].append(group)

    labels = _labels(file)
    for known in (labels, {}):
        arrays: list[Array] = []
        for owner, node in tree.items():
            for group in owned[owner]:
                values = {}
                for key in sorted(groups[group], key=natural):
                    values[key] = numbers(group, file[group][key])
                arrays += _arrays_of_group(group, values, node, known)
        if have_unique_names(arrays):
            break
    if not have_unique_names(arrays):
        arrays = [array._replace(name=array.place) for array in arrays]

    order = "none"
    if len(tree) > 1:
        order = "layers"
    return Checkpoint(
        kind,
        arrays,
        content,
        config,
        container,
        order,
        optimizer,
        attributes,
        labels,
    )


def _labels(file: h5py.File) -> dict[str, str]:
    """The names of layers by their groups, which Keras 3 writes since 3.4: the group itself is
    named after the class, or after the attribute that has the layer."""
    labels = {}

    def visit(place: str, item: Any) -> None:
        owner, _, last = f"/{place}".rpartition("/")
        name = item.attrs.get("name")
        if owner and last == "vars" and name is not None:
            labels[owner.strip("/")] = _decoded(name)

    file.visititems(visit)
    return labels


def _arrays_of_group(
    group: str,
    values: Mapping[str, np.ndarray],
    node: Node,
    labels: Mapping[str, str],
) -> list[Array]:
    """The arrays of a layer of Keras 3.

    `group`: the name of the group that has them;
    `values`: by their keys, which are numbers, in order;
    `node`: the deepest layer of the configuration that contains the group;
    `labels`: the names of layers by their groups.
    """
    scope = _scope(group, node, labels)
    parts = [f"var_{key}" for key in values]
    if _is_cell(group, values, node):
        parts = list(PARTS[: len(values)])

    arrays = []
    for key, part in zip(values, parts, strict=True):
        array = Array(
            f"{scope}/{part}",
            f"{group}/{key}",
            values[key],
            layer=scope.partition("/")[0],
        )
        arrays.append(array)
    return arrays


def deepest(place: str, groups: Container[str]) -> str:
    """The deepest of the `groups` that contains `place`, or an empty text: the file itself."""
    while place and place not in groups:
        place = place.rpartition("/")[0]
    return place


def _is_cell(group: str, values: Mapping[str, np.ndarray], node: Node) -> bool:
    """Whether the arrays are those of a recurrent cell.

    The configuration says it. Without one, the name of the group does, or all shapes are those of a
    CuDNN layer.
    """
    if list(values) not in (["0", "1"], ["0", "1", "2"]):
        return False
    owner = group.removesuffix("/vars")
    if is_recurrent(node):
        return owner == node.arrays

    above, _, last = owner.rpartition("/")
    if last in ("cell", "forward_layer", "backward_layer"):
        return True
    if last.startswith("cu_dnn") or f"/{above}".endswith("/cells"):
        return True

    if len(values) != 3:
        return False
    kernel, recurrent, bias = values.values()
    if cell_of(recurrent) not in ("lstm", "gru"):
        return False
    columns = recurrent.shape[1]
    return kernel.shape[1:] == (columns,) and bias.shape == (2 * columns,)


def _scope(group: str, node: Node, labels: Mapping[str, str]) -> str:
    """The name of the layer with the arrays in `group`: from the configuration above the `node`,
    and below it the names of layers or else of groups, such as ``both/forward``."""
    names = list(node.names)
    place = node.place
    for part in group.removeprefix(place).strip("/").split("/"):
        place = f"{place}/{part}".lstrip("/")
        label = labels.get(place)
        if part == "cell" and label and not OF_CELL.fullmatch(label):
            names.append(label)
        if part in UNNAMED:
            continue
        direction = part.removesuffix("_layer")
        if direction in DIRECTIONS:
            part = direction
        elif label:
            part = label
        names.append(part)
    return "/".join(names) or "model"


def natural(text: str) -> list[tuple[str, int]]:
    """The key by which names are sorted: ``lstm_2`` before ``lstm_10``, and ``forward`` before
    ``backward``."""
    key = []
    for part in re.split(r"(\d+)", text.replace("/backward", "/gackward")):
        if part.isdigit():
            key.append(("", int(part)))
        else:
            key.append((part, 0))
    return key
