"""Files of other frameworks whose arrays have names: flax's msgpack, orbax's folders, equinox's
leaves, MXNet's ``.params``, MindSpore's ``.ckpt``, any HDF5 file, and the ``model.json`` of
TensorFlow.js.

Which layer an array belongs to, and the order of its gates, are not in these files, but in the
layout that the user states (`rnnweights.layouts`). Nothing here can run code.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from rnnweights.checkpoint import SAVEZ, Refusal, check_claim
from rnnweights.frameworks import Worker
from rnnweights.protobuf import integers, message, octets

Contents = list[tuple[str, Any]]  # names and values
NPY = b"\x93NUMPY"
# Type, magic number of an array.
MXNET_LIST, MXNET_ARRAY = 0x112, 0xF993FAC9
MXNET_TYPES = ("float32", "float64", "float16", "uint8", "int32", "int8", "int64")
MINDSPORE_TYPES = {
    "Float16": "float16",
    "Float32": "float32",
    "Float64": "float64",
    "Int8": "int8",
    "Int16": "int16",
    "Int32": "int32",
    "Int64": "int64",
    "UInt8": "uint8",
    "Bool": "bool",
}


def msgpack(content: bytes) -> Contents:
    """The arrays of ``flax.serialization.to_bytes``, by the path of their keys.

    Source: flax/serialization.py, where an array is an extension of type 1 with its shape, its type
    and its bytes. Raises ValueError if it is none, and `Refusal` for types that NumPy lacks.
    """
    try:
        import msgspec
    except ImportError:
        raise Refusal("msgspec is not installed, which reads it.", "pip install msgspec.") from None

    def array(code: int, data: memoryview) -> Any:
        if code != 1:
            return None
        shape, kind, values = msgspec.msgpack.decode(bytes(data))
        return _flax_array(shape, kind, values)

    tree = msgspec.msgpack.decode(content, ext_hook=array)
    if not isinstance(tree, dict):
        raise ValueError("has no dictionary of arrays")
    return list(_leaves(tree, ""))


def _flax_array(shape: Any, kind: Any, values: bytes) -> np.ndarray:
    if isinstance(kind, bytes):
        kind = kind.decode()
    if kind == "V2":
        kind = "bfloat16"
    if kind == "bfloat16" or kind.startswith("float8"):
        raise Refusal(f"an array has the type {kind}, which NumPy lacks.", "save it as float32.")
    return np.frombuffer(values, kind).reshape(shape)


def _leaves(tree: Mapping[Any, Any], above: str) -> Iterator[tuple[str, Any]]:
    if "__msgpack_chunked_array__" in tree:
        raise Refusal(
            f"{above} is an array of more than 1 GiB in pieces.",
            "save its arrays with numpy.savez.",
        )
    for key, value in tree.items():
        name = f"{above}/{key}".lstrip("/")
        if isinstance(value, Mapping):
            yield from _leaves(value, name)
        elif isinstance(value, np.ndarray) and value.ndim:
            yield name, value


ORBAX = "_METADATA"  # the file of orbax with the names of the arrays
OF_ORBAX = (ORBAX, "_CHECKPOINT_METADATA", "manifest.ocdbt")
UNFINISHED = "orbax-checkpoint-tmp"  # in the names of folders that orbax has not finished


def orbax(path: Path, worker: Worker) -> Contents:
    """The arrays of a checkpoint of orbax, by the path of their keys, which a Python with
    tensorstore reads.

    `path`: its folder, or one above it. Raises `Refusal` if there are several, none is complete, or
    for types that NumPy lacks.
    """
    folders = []
    for file in sorted(path.rglob(ORBAX)):
        if UNFINISHED not in str(file.relative_to(path)):
            folders.append(file.parent)
    if not folders:
        raise Refusal(
            f"it is a checkpoint of orbax that is not complete, or of an early version: {ORBAX} is "
            "missing.",
            f"restore it with orbax and {SAVEZ}",
        )
    if len(folders) > 1:
        names = ", ".join(str(folder.relative_to(path)) for folder in folders[:6])
        raise Refusal(
            f"it has {len(folders)} checkpoints of orbax: {names}.", "name the folder of one."
        )
    answer, arrays = worker("orbax", folder=str(folders[0].resolve()))
    contents = []
    for number, (key, kind) in enumerate(zip(answer["keys"], answer["types"], strict=True)):
        name = "/".join(key)
        if str(number) not in arrays and not is_of_training(name):
            raise Refusal(f"{name} has the type {kind}, which NumPy lacks.", "save it as float32.")
        values = arrays.get(str(number), np.zeros(1))
        if values.ndim:
            contents.append((name, values))
    return contents


def is_of_training(name: str) -> bool:
    """Whether an array of flax is in the state of an optimizer of optax, which has arrays with the
    names of the model's."""
    return bool({"opt_state", "optimizer", "optimizer_state"} & set(name.split("/")[:-1]))


def numpy_leaves(content: bytes, names: tuple[str, ...]) -> Contents:
    """The arrays of ``equinox.tree_serialise_leaves``, which follow each other without names.

    `names`: those of the fields of one cell, in order; a file of several has them several times.
    Raises `Refusal` if the number of the arrays does not fit.
    """
    file = io.BytesIO(content)
    arrays = []
    while file.tell() < len(content):
        if not content.startswith(NPY, file.tell()):
            break  # a number or a flag, which is no array of the cell
        arrays.append(np.lib.format.read_array(file, allow_pickle=False))
    if file.tell() < len(content) or not arrays or len(arrays) % len(names):
        raise Refusal(
            f"it has {len(arrays)} arrays without names, and one cell has {', '.join(names)}.",
            "serialise the cell alone, or save its arrays with numpy.savez under their names.",
        )
    contents = []
    for number, values in enumerate(arrays):
        cell, place = divmod(number, len(names))
        scope = "cell" if len(arrays) == len(names) else f"cell_{cell}"
        contents.append((f"{scope}/{names[place]}", values))
    return contents


def mxnet(content: bytes) -> Contents:
    """The arrays of MXNet's ``.params``. Source: src/ndarray/ndarray.cc, NDArray::Save, version 2.

    Raises ValueError for a file that is damaged, and `Refusal` for sparse arrays.
    """
    file = io.BytesIO(content)

    def number(form: str) -> int:
        size = struct.calcsize(form)
        (value,) = struct.unpack(f"<{form}", file.read(size))
        return int(value)

    magic, _, count = number("Q"), number("Q"), number("Q")
    if magic != MXNET_LIST or count > len(content):
        raise ValueError("has no list of arrays")
    arrays = []
    for _ in range(count):
        if number("I") != MXNET_ARRAY:
            raise Refusal("it is a .params file of MXNet before 1.0.", "save it with MXNet 1.")
        if number("i") not in (0, -1):
            raise Refusal("it has sparse arrays.", "save them as dense arrays.")
        shape = [number("q") for _ in range(number("I"))]
        number("i"), number("i")  # the device
        kind = number("i")
        if not 0 <= kind < len(MXNET_TYPES):
            raise Refusal("it has arrays of a type that NumPy lacks.", "save them as float32.")
        dtype = np.dtype(MXNET_TYPES[kind])
        size = int(np.prod(shape)) * dtype.itemsize
        check_claim(size, len(content))
        arrays.append(np.frombuffer(file.read(size), dtype).reshape(shape))
    names = []
    for _ in range(number("Q")):
        text = file.read(number("Q")).decode()
        names.append(text.partition(":")[2] or text)  # arg:NAME or aux:NAME
    return list(zip(names, arrays, strict=True))


def mindspore(content: bytes) -> Contents:
    """The arrays of MindSpore's ``.ckpt``: a list of tags and tensors with their dimensions, their
    types and their bytes. Source: mindspore/ccsrc/utils/checkpoint.proto.

    Raises ValueError if it is none, and `Refusal` for types that NumPy lacks.
    """
    contents = []
    pieces: dict[str, list[bytes]] = {}
    about: dict[str, tuple[list[int], str]] = {}
    for each in message(content)[1]:
        value = message(each)
        name = octets(value[1][0]).decode()
        tensor = message(value[2][0])
        kind = octets(tensor[2][0]).decode()
        if kind not in MINDSPORE_TYPES:
            raise Refusal(f"{name} has the type {kind}, which NumPy lacks.", "save it as float32.")
        about[name] = integers(tensor.get(1, [])), MINDSPORE_TYPES[kind]
        pieces.setdefault(name, []).append(octets(tensor[3][0]))  # large ones are in several
    for name, (shape, kind) in about.items():
        values = np.frombuffer(b"".join(pieces[name]), kind)
        if shape == [0] and values.size == 1:  # a number
            shape = []
        contents.append((name, values.reshape(shape)))
    return contents


def hdf5(file: h5py.File) -> Contents:
    """All arrays of an HDF5 file by their places, such as those of nnabla."""
    contents: Contents = []

    def visit(place: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            contents.append((place, item))

    file.visititems(visit)
    return contents


def tensorflow_js(path: Path) -> tuple[Contents, dict[str, Any] | None]:
    """The arrays of a ``model.json`` of TensorFlow.js with its shards, and the configuration of its
    model.

    Source: tfjs-core, io/types.ts, WeightsManifestConfig. Raises ValueError if it is none, and
    `Refusal` if a shard is missing or the arrays are quantized.
    """
    model = json.loads(path.read_bytes())
    contents = []
    for group in model["weightsManifest"]:
        shards = []
        for name in group["paths"]:
            shard = path.parent / Path(name).name
            if not shard.is_file():
                raise Refusal(f"its shard {name} is missing.", "use the complete model.")
            shards.append(shard.read_bytes())
        data = b"".join(shards)
        place = 0
        for weight in group["weights"]:
            if "quantization" in weight:
                raise Refusal(
                    f"{weight['name']} is quantized.", "convert the model without quantization."
                )
            dtype = np.dtype(weight["dtype"])
            count = int(np.prod(weight["shape"], dtype=int))
            values = np.frombuffer(data, dtype, count, place).reshape(weight["shape"])
            contents.append((weight["name"], values))
            place += count * dtype.itemsize
        if place != len(data):
            raise Refusal("its shards have other bytes than it says.", "use the complete model.")
    topology = model.get("modelTopology") or {}
    return contents, topology.get("model_config", topology.get("config") and topology)
