"""Checkpoints of TensorFlow: of ``tf.train.Saver``, of Keras's ``save_format="tf"``, SavedModels.

A checkpoint is a table of keys, ``PREFIX.index``, and files with the bytes of the arrays. Saver's
first version and variables in slices are read by TensorFlow itself. The table has the names of the
variables, or the object graph, which has them; a file with the graph, ``PREFIX.meta``, has the
order of their creation.

Source: tensorflow/core/util/tensor_bundle (tensor_bundle.cc, tensor_bundle.proto), 2.21;
tensorflow/core/protobuf (meta_graph.proto, trackable_object_graph.proto); LevelDB's table format.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rnnweights.cells import DIRECTIONS
from rnnweights.checkpoint import Checkpoint, Data, InFile, Refusal, named
from rnnweights.frameworks import Worker
from rnnweights.protobuf import integers, message, octets, varint

ATTRIBUTE = "/.ATTRIBUTES/VARIABLE_VALUE"
OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
# A layer may be in a scope called training or optimizer: the names of Keras's classes decide, and
# the keys of objects.
OPTIMIZER = re.compile(
    r"(training(_\d+)?/)?(Adam|Adadelta|Adagrad|Adamax|Ftrl|Nadam|RMSprop|SGD)/"
    r"|(optimizer|keras_api)/.*\.ATTRIBUTES/"
    r"|.*(beta[12]_power|global_step|save_counter)(/\.ATTRIBUTES.*)?$|.*/\.OPTIMIZER_SLOT/"
)
# TensorFlow's numbers of types → NumPy's names.
TYPES = {
    1: "<f4",
    2: "<f8",
    3: "<i4",
    4: "u1",
    5: "<i2",
    6: "i1",
    8: "<c8",
    9: "<i8",
    10: "?",
    17: "<u2",
    18: "<c16",
    19: "<f2",
    22: "<u4",
    23: "<u8",
}
STRING, BFLOAT16 = 7, 14
FOOTER = 48  # bytes at the end of a table
TABLE = bytes.fromhex("57fb808b247547db")  # the last of them
COMPLETE = "use a checkpoint that is complete and not damaged."


POLYNOMIAL = 0x82F63B78  # of CRC-32C, reversed
LANES = 4096


def crc32c(content: bytes | np.ndarray) -> int:
    """The checksum CRC-32C of some bytes. They are divided into lanes, which NumPy goes through
    side by side, two bytes at a time; a checksum is linear, so those of the lanes are joined."""
    table = np.arange(2**16, dtype="u4")
    for _ in range(16):
        table = (table >> 1) ^ np.where(table & 1, np.uint32(POLYNOMIAL), np.uint32(0))
    data = np.frombuffer(content, "u1")
    steps = len(data) // 2 // LANES

    def through(sums: np.ndarray, words: np.ndarray) -> np.ndarray:
        for row in words:
            sums = (sums >> 16) ^ table[(sums ^ row) & 0xFFFF]
        return sums

    total = 0xFFFFFFFF
    if steps:
        words = data[: 2 * steps * LANES].view("<u2").reshape(LANES, steps).T
        sums = through(np.zeros(LANES, "u4"), words)
        bits = np.uint32(1) << np.arange(32, dtype="u4")
        behind = through(bits, np.zeros((steps, 1), "u2"))  # what a lane of zeros makes of each bit
        for lane in sums.tolist():
            bits_of = (total >> np.arange(32)) & 1
            total = int(np.bitwise_xor.reduce(behind[bits_of == 1])) ^ lane
    for octet in data[2 * steps * LANES :].tolist():
        total ^= octet
        for _ in range(8):
            total = (total >> 1) ^ (POLYNOMIAL if total & 1 else 0)
    return total ^ 0xFFFFFFFF


def _check(content: bytes | np.ndarray, masked: int, what: str) -> None:
    """Raises `Refusal` unless these bytes have the checksum, as TensorFlow and LevelDB write it."""
    found = crc32c(content)
    if ((found >> 15 | found << 17) + 0xA282EAD8) & 0xFFFFFFFF != masked:
        raise Refusal(f"{what} is damaged: its checksum differs.", COMPLETE)


class Checked(InFile):
    """An array in a file, whose checksum is compared when it is read."""

    def __init__(self, name: str, checksum: int, *place: Any):
        super().__init__(*place)
        self.name = name
        self.checksum = checksum
        self.in_pieces = False

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        values = super().__array__()
        _check(values.reshape(-1).view("u1"), self.checksum, self.name)
        return values if dtype is None else values.astype(dtype)


class NeedsTensorFlow(Exception):
    """A checkpoint in a form that TensorFlow alone reads."""


def read_tensorflow(path: Path, worker: Worker) -> Checkpoint:
    """The checkpoint of which `path` is a file, the prefix of the files or the folder.

    `worker`: asks TensorFlow, where that is needed. Raises `Refusal`.
    """
    prefix = _prefix_of(path)
    try:
        variables, graph = _bundle(prefix)
    except NeedsTensorFlow:
        variables, graph = _by_library(prefix, worker)

    if graph:
        names, order = _of_objects(graph)
    else:
        names, order = _of_graph(Path(f"{prefix}.meta"), variables)
    of_model = set(variables) - _of_optimizer(variables, names)
    ordered = [key for key in names if key in of_model]
    if set(ordered) != of_model:
        ordered = sorted(of_model)
        order = "none"
    shown = [names.get(key, key).replace(ATTRIBUTE, "") for key in ordered]
    if len(set(shown)) < len(shown):
        shown = [key.replace(ATTRIBUTE, "") for key in ordered]

    arrays = named([(name, variables[key]) for name, key in zip(shown, ordered, strict=True)])
    # The layer of a variable is its scope.
    for index, array in enumerate(arrays):
        layer, _, last = array.scope.rpartition("/")
        if last not in DIRECTIONS:
            layer = array.scope
        arrays[index] = array._replace(layer=layer)
    return Checkpoint(
        "TensorFlow",
        arrays,
        path,
        order=order,
        optimizer=len(variables) - len(of_model),
    )


def _prefix_of(path: Path) -> str:
    """What the names of the files of a checkpoint begin with."""
    if not path.is_dir():
        return re.sub(r"\.(index|meta|data-\d+-of-\d+)$", "", str(path))
    if (path / "saved_model.pb").exists():
        return str(path / "variables" / "variables")
    state = path / "checkpoint"
    latest = None
    if state.exists():
        latest = re.search(r'^model_checkpoint_path: "(.*)"$', state.read_text(), re.M)
    if latest is None:
        raise Refusal("the file checkpoint does not name one.", "name the prefix of one.")
    return str(path / latest.group(1))


def _bundle(prefix: str) -> tuple[dict[str, Data], bytes]:
    """The variables by their keys and, if there is one, the bytes of the object graph."""
    index = Path(f"{prefix}.index")
    if not index.exists():
        raise NeedsTensorFlow
    entries = dict(_table(index.read_bytes()))
    header = message(entries.pop(b""))
    (shards,) = integers(header.get(1, [0]))
    if integers(header.get(2, [0])) == [1]:
        raise Refusal("a computer with big-endian numbers wrote it.", "save it on another one.")

    variables: dict[str, Data] = {}
    graph = b""
    for key, value in entries.items():
        name = key.decode()
        entry = message(value)
        if 7 in entry:
            raise NeedsTensorFlow  # in slices
        kind, shard, offset, size = (integers(entry.get(number, [0]))[0] for number in (1, 3, 4, 5))
        shape = []
        if 2 in entry:
            for dimension in message(entry[2][0]).get(2, []):
                shape += integers(message(dimension).get(1, [0]))
        file = Path(f"{prefix}.data-{shard:05}-of-{shards:05}")
        if not file.exists():
            raise Refusal(f"{file.name} is missing.", COMPLETE)
        if offset + size > file.stat().st_size:
            raise Refusal(f"{file.name} ends before the array {name}.", COMPLETE)
        if name == OBJECT_GRAPH:
            graph = _text(file, offset, size)
        elif kind == BFLOAT16:
            raise Refusal(
                f"{name} has the type bfloat16, which NumPy lacks.", "save it as float32."
            )
        elif kind in TYPES:
            (checksum,) = struct.unpack("<I", octets(entry[6][0]))
            data = Checked(name, checksum, file, offset, shape, np.dtype(TYPES[kind]))
            if data.size * data.dtype.itemsize != size:
                raise Refusal(f"{name} has {size:,} bytes and the shape {data.shape}.", COMPLETE)
            variables[name] = data
    return variables, graph


def _table(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yields the keys and values of a table, in order. Raises ValueError for one that is none."""
    if not content.endswith(TABLE):
        raise ValueError("is no table")
    _, place = _handle(content, len(content) - FOOTER)  # of blocks that are not used
    index, _ = _handle(content, place)
    for _, handle in _block(content, *index):
        where, _ = _handle(handle, 0)
        yield from _block(content, *where)


def _handle(content: bytes, place: int) -> tuple[tuple[int, int], int]:
    """The place and the size of a block, and the place after them."""
    view = memoryview(content)
    start, place = varint(view, place)
    size, place = varint(view, place)
    return (start, size), place


def _block(content: bytes, start: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    """Yields the keys and values of a block. Each key has the beginning of the one before."""
    if content[start + size]:
        raise NeedsTensorFlow  # it is compressed
    end = start + size + 1
    (checksum,) = struct.unpack("<I", content[end : end + 4])
    _check(content[start:end], checksum, "its table")
    block = memoryview(content)[start : start + size]
    (restarts,) = struct.unpack("<I", block[-4:])
    end = size - 4 * (restarts + 1)
    place = 0
    key = b""
    while place < end:
        shared, place = varint(block, place)
        own, place = varint(block, place)
        length, place = varint(block, place)
        key = key[:shared] + bytes(block[place : place + own])
        place += own
        yield key, bytes(block[place : place + length])
        place += length


def _text(file: Path, offset: int, size: int) -> bytes:
    """A text that is saved as an array: its length, a checksum of that and its bytes."""
    with file.open("rb") as opened:
        opened.seek(offset)
        content = opened.read(size)
    length, place = varint(memoryview(content), 0)
    return content[place + 4 : place + 4 + length]


def _by_library(prefix: str, worker: Worker) -> tuple[dict[str, Data], bytes]:
    """As `_bundle`, read by TensorFlow."""
    try:
        answer, values = worker("tensorflow", prefix=str(Path(prefix).absolute()))
    except Refusal as error:
        raise Refusal(f"it is a file of TensorFlow, and {error.what}", error.remedy) from error
    variables: dict[str, Data] = {}
    for number, key in enumerate(answer["keys"]):
        variables[key] = values[str(number)]
    return variables, values["graph"].tobytes() if "graph" in values else b""


def _of_optimizer(variables: Mapping[str, Data], names: Mapping[str, str]) -> set[str]:
    """The keys of an optimizer's arrays. `names`: by key."""
    found = set()
    for key, data in variables.items():
        # The slots of an optimizer of TensorFlow 1 are named after their variable, and have its
        # shape.
        variable = variables.get(key.rpartition("/")[0])
        is_slot = variable is not None and data.shape == variable.shape
        if is_slot or OPTIMIZER.match(key) or OPTIMIZER.match(names.get(key, key)):
            found.add(key)
    return found


def _of_graph(meta: Path, variables: Mapping[str, Any]) -> tuple[dict[str, str], str]:
    """Names by key, in the order of creation, if there is the file with the graph."""
    if not meta.exists():
        return {key: key for key in sorted(variables)}, "none"
    names = {}
    for collection in message(meta.read_bytes()).get(4, []):
        entry = message(collection)
        if octets(entry[1][0]) != b"variables":
            continue
        texts = message(message(entry[2][0])[2][0])  # the list of bytes
        for text in texts.get(1, []):
            name = octets(message(text)[1][0]).decode().partition(":")[0]
            names[name] = name
    return names, "arrays"


def _of_objects(content: bytes) -> tuple[dict[str, str], str]:
    """Names by key, in the order of the model's layers, if each has one set of arrays."""
    nodes = [message(node) for node in message(content).get(1, [])]
    names: dict[str, str] = {}
    seen = set()

    def children(node: int) -> list[tuple[int, str]]:
        found = []
        for child in map(message, nodes[node].get(1, [])):
            (number,) = integers(child.get(1, [0]))
            found.append((number, octets(child.get(2, [b""])[0]).decode()))
        return found

    def visit(start: int) -> None:
        waiting = [start]
        while waiting:
            number = waiting.pop()
            if number in seen:
                continue
            seen.add(number)
            for attribute in map(message, nodes[number].get(2, [])):
                key = octets(attribute.get(3, [b""])[0]).decode()
                names[key] = octets(attribute.get(2, [b""])[0]).decode() or key
            waiting += [child for child, _ in reversed(children(number))]

    layers = {}
    for child, name in children(0):
        match = re.match(r"layer_with_weights-(\d+)$", name)
        if match:
            layers[int(match.group(1))] = child
    order = "arrays" if layers else "none"
    for number in sorted(layers):
        before = set(names)
        visit(layers[number])
        scopes = set()
        for key in set(names) - before:
            scope = names[key].rpartition("/")[0]
            scope = re.sub(r"/(forward|backward)_[^/]*", "", scope)
            scope = re.sub(r"/[^/]*_cell(_\d+)?$", "", scope)
            scopes.add(scope)
        if len(scopes) > 1:
            order = "none"
    visit(0)
    return names, order
