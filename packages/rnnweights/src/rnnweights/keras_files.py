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

What is written of a file of Keras stays what it is: the arrays of its recurrent cells and the
classes of their layers are replaced, everything else is kept.
"""

from __future__ import annotations

import copy
import errno
import io
import json
import re
import tempfile
import zipfile
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import h5py
import numpy as np

from rnnweights.array_files import in_archive
from rnnweights.cells import DIRECTIONS, Cell, Item, arrays_of
from rnnweights.checkpoint import (
    LARGE,
    PARTS,
    SAVEZ,
    Array,
    Checkpoint,
    Data,
    Refusal,
    WrittenBehind,
    check_claim,
    have_unique_names,
    numbers,
    pieces,
    tidy,
)
from rnnweights.configuration import convert_classes
from rnnweights.cudnn_and_torch import cell_of
from rnnweights.layer_tree import (
    CONTAINERS,
    OF_CELL,
    UNNAMED,
    Node,
    check_model,
    is_recurrent,
    nodes,
)

WEIGHTS = "model.weights.h5"  # in a .keras file
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


STATE = ("optimizer/", "metrics/")  # of training, in files of Keras 3 and 2.13
TOP_LEVEL = "top_level_model_weights"  # a group of arrays of the model itself, in files of Keras 2


def read_hdf5(path: Path) -> Checkpoint:
    """The checkpoint in an HDF5 file of Keras 2 or 3.

    Raises `Refusal` for a file of Keras 1, and one that has no arrays of Keras.
    """
    file = opened(path, path.stat().st_size)
    if "model_weights" in file or attributes_of(file, "layer_names"):
        return _of_keras_2(file, path)
    return _of_keras_3(
        file,
        ".weights.h5",
        path,
        config=None,
        attributes={},
    )


def read_archive(path: Path) -> Checkpoint:
    """The checkpoint in a ``.keras`` file.

    Raises `Refusal` if its configuration describes no layers.
    """
    size = path.stat().st_size
    with zipfile.ZipFile(path) as members:
        claimed = sum(entry.file_size for entry in members.infolist())
        check_claim(claimed, size)
        config = json.loads(members.read("config.json"))
        metadata = {}
        if "metadata.json" in members.namelist():
            metadata = json.loads(members.read("metadata.json"))
        weights = _member(members, path, WEIGHTS)

    check_model(config)
    version = metadata.get("keras_version")
    return _of_keras_3(
        opened(weights, size),
        ".keras",
        path,
        config,
        attributes={"keras_version": str(version)},
    )


class _Window(io.RawIOBase):
    """Some bytes of a file, as a file: a member of an archive that is not compressed."""

    def __init__(self, path: Path, start: int, size: int):
        self.file = path.open("rb")
        self.start = start
        self.size = size
        self.at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self.at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self.at, io.SEEK_END: self.size}[whence]
        return self.at

    def tell(self) -> int:
        return self.at

    def readinto(self, buffer: Any) -> int:
        self.file.seek(self.start + self.at)
        wanted = memoryview(buffer)[: max(self.size - self.at, 0)]
        count = self.file.readinto(wanted)
        self.at += count
        return count


def _member(archive: zipfile.ZipFile, path: Path, name: str) -> BinaryIO:
    """A member of the archive in `path`, as a file."""
    start = in_archive(archive, path, name)
    if start is None:
        return io.BytesIO(archive.read(name))
    return cast(BinaryIO, _Window(path, start, archive.getinfo(name).file_size))


def opened(source: Path | BinaryIO, size: int) -> h5py.File:
    """An HDF5 file without links to other files, which reading would follow, and without claims
    that the `size` of its bytes contradicts. It stays open as long as one of its arrays is used.
    Raises `Refusal`."""
    remedy = "save the model in one file."
    file = h5py.File(source, "r")
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
    check_claim(claimed, size)
    return file


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


def _of_keras_2(file: h5py.File, path: Path) -> Checkpoint:
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
        path,
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
    path: Path,
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
    if groups and not any("vars" in group for group in groups):
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
                values: dict[str, Data] = {}
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
        path,
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
    values: Mapping[str, Data],
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
        parts[: len(PARTS)] = PARTS[: len(values)]

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


def _is_cell(group: str, values: Mapping[str, Data], node: Node) -> bool:
    """Whether the arrays are those of a recurrent cell, or of one that has more than Keras's do,
    such as peepholes.

    The configuration says it. Without one, the name of the group does, or all shapes are those of a
    CuDNN layer.
    """
    if list(values)[:2] != ["0", "1"]:
        return False
    first, second, *others = values.values()
    is_alike = cell_of(second) is not None and first.shape[1:] == second.shape[1:]
    if len(others) > 1 and not is_alike:
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


@contextmanager
def _new(path: Path) -> Iterator[h5py.File]:
    """A new HDF5 file. Raises OSError if it cannot be written to its end: h5py raises RuntimeError
    when it closes such a file."""
    try:
        with h5py.File(path, "w") as file:
            yield file
    except RuntimeError as error:
        if isinstance(error.__context__, OSError):
            raise error.__context__ from None
        raise OSError(errno.EIO, str(error)) from error


def write_weights(
    path: Path, arrays: Sequence[Array], order: str, versions: Mapping[str, str]
) -> None:
    """Writes a file of weights in the format of Keras 2, for ``load_weights``.

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

    with _new(path) as file:
        for name, text in {**VERSIONS, **versions}.items():
            file.attrs[name] = text.encode()
        _write_layers(file, layers)


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
    """Writes layers, with each array at its place in its layer.

    Keras 2 decodes the names, Keras 3 does not mind.
    """
    for layer, arrays in layers.items():
        group = file.create_group(layer)
        places = []
        for array in arrays:
            _create(group, array.place, array.data)
            places.append(array.place)
        _set_texts(group, "weight_names", places)
    names = [layer for layer in layers if layer != TOP_LEVEL]
    _set_texts(file, "layer_names", names)


def _create(group: h5py.Group, name: str, data: Data) -> None:
    """Writes an array. The bytes of a large one are written without h5py, which lets no other
    thread work meanwhile."""
    if data.size * data.dtype.itemsize >= LARGE:
        creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        creation.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        creation.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        dataset = group.create_dataset(name, data.shape, data.dtype, dcpl=creation)
        with WrittenBehind(open(group.file.filename, "r+b")) as file:
            file.seek(dataset.id.get_offset())
            for piece in pieces(data):
                file.write(np.ascontiguousarray(piece).data)
        return
    dataset = group.create_dataset(name, data.shape, data.dtype)
    start = 0
    for piece in pieces(data):
        if piece.shape == data.shape:
            dataset[...] = piece
        else:
            dataset[start : start + len(piece)] = np.ascontiguousarray(piece)
            start += len(piece)


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


def write_like(
    path: Path, checkpoint: Checkpoint, items: Sequence[Item], layout: str | None
) -> None:
    """Writes the file of a `checkpoint` of Keras with its cells in a layout, and with a
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
        _write_like_keras_2(
            path,
            checkpoint,
            arrays_of(items, layout),
            config,
            bool(changed),
        )
        return
    for item in items:
        if not any(item is each for each in changed):
            _look_at(item)
    if config is None:
        renamed = _renamed(checkpoint, changed)
        _write_like_keras_3(path, checkpoint.path, changed, renamed)
        return

    if changed:
        config.pop("compile_config", None)
    after = nodes(config, checkpoint.container)
    renamed = {}
    for old, new in zip(before, after, strict=True):
        renamed[old.place] = new.place

    with zipfile.ZipFile(checkpoint.path) as source, zipfile.ZipFile(path, "w") as target:
        for name in source.namelist():
            if name == "config.json":
                target.writestr(name, json.dumps(config).encode())
            elif name == WEIGHTS:
                with tempfile.TemporaryDirectory(dir=path.parent) as folder:
                    weights = Path(folder) / WEIGHTS
                    member = _member(source, checkpoint.path, name)
                    _write_like_keras_3(weights, member, changed, renamed)
                    target.write(weights, name)
            else:
                target.writestr(name, source.read(name))


def _look_at(item: Item) -> None:
    """Reads the arrays, some of which are watched: HDF5 copies them without anyone seeing them."""
    for array in item.sources if isinstance(item, Cell) else [item]:
        for _ in pieces(array.data):
            pass


def _write_like_keras_2(
    path: Path,
    checkpoint: Checkpoint,
    arrays: Sequence[Array],
    config: dict[str, Any] | None,
    changed: bool,
) -> None:
    """The HDF5 file of Keras 2 with these arrays and this configuration. `changed`: whether the
    arrays are others than those of the `checkpoint`."""
    with h5py.File(checkpoint.path, "r") as source, _new(path) as file:
        before = source.get("model_weights", source)
        weights = file if before == source else file.create_group("model_weights")
        layers: dict[str, list[Array]] = {}
        for layer in texts(before, "layer_names"):
            layers[layer] = []
        for array in arrays:
            layers.setdefault(array.layer, []).append(array)

        groups = [(before, weights)]
        if before != source:
            groups.append((source, file))
        for old, new in groups:
            for name, value in old.attrs.items():
                new.attrs[name] = value.encode() if isinstance(value, str) else value
            for name in old:
                if name != "model_weights" and not (old == before and name in layers):
                    source.copy(old[name], new, name)
        _write_layers(weights, layers)

        if changed:
            file.pop("optimizer_weights", None)
            file.attrs.pop("training_config", None)
        if config is not None:
            file.attrs["model_config"] = json.dumps(config).encode()


def _write_like_keras_3(
    path: Path, weights: Path | BinaryIO, changed: Sequence[Cell], renamed: Mapping[str, str]
) -> None:
    """Writes the `weights` of Keras 3 with groups `renamed`, and with the `changed` cells, of CuDNN
    layers, where the cells of Keras's layers are."""
    replaced = set()
    for cell in changed:
        for array in cell.sources:
            replaced.add(array.place)

    def new(place: str) -> str:
        group = deepest(place, renamed)
        return renamed.get(group, "") + place.removeprefix(group)

    with h5py.File(weights, "r") as source, _new(path) as target:
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
                _create(target, f"{owner}/cell/vars/{number}", values)


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
