"""Files of ``torch.save``, read without torch: a ZIP archive with a pickle and the bytes of arrays.

The names, shapes and places of the arrays are in the pickle and nowhere else, so it must be read.
A pickle is a program, which can call what it names. Here it runs only if all of its instructions
are among those that ``torch.save`` writes, and it gets nothing that it could do harm with: the
names that make arrays, dictionaries and sizes mean inert stand-ins, and any other name is refused,
as by torch's own ``weights_only=True``. Nothing is imported.

Source: torch/serialization.py and torch/_weights_only_unpickler.py, 2.13; CPython's pickle.py.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import zipfile
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rnnweights.array_files import in_archive
from rnnweights.checkpoint import (
    Checkpoint,
    Computed,
    Data,
    InFile,
    Refusal,
    check_claim,
    named,
)

# Torch's classes of storages → NumPy's types.
TYPES = {
    "FloatStorage": "f4",
    "DoubleStorage": "f8",
    "HalfStorage": "f2",
    "LongStorage": "i8",
    "IntStorage": "i4",
    "ShortStorage": "i2",
    "CharStorage": "i1",
    "ByteStorage": "u1",
    "BoolStorage": "?",
    "ComplexFloatStorage": "c8",
    "ComplexDoubleStorage": "c16",
}
OTHER_TYPES = {"BFloat16Storage": "bfloat16", "ComplexHalfStorage": "complex32"}
# What a state_dict with arrays that are rounded to 8 bits names.
QUANTIZED = (
    ("torch", "ScriptObject"),
    ("torch", "qint8"),
    ("torch", "quint8"),
    ("torch._utils", "_rebuild_qtensor"),
)
# Keys under which a file of torch may have its state_dict beside other things.
STATE_DICTS = ("state_dict", "model_state_dict", "model")
SAVING = "torch.save(model.state_dict(), FILE)."
MOST = 10**6  # values in the file, of which each takes a step
# The instructions that Python's pickler writes for dictionaries, lists, texts, numbers and calls,
# in protocols 2 to 5.
INSTRUCTIONS = (
    "PROTO", "FRAME", "STOP", "MARK", "POP", "POP_MARK", "MEMOIZE", "BINPUT", "LONG_BINPUT",
    "BINGET", "LONG_BINGET", "NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "LONG1",
    "LONG4", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BINBYTES",
    "SHORT_BINBYTES", "BINBYTES8", "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2",
    "TUPLE3", "EMPTY_LIST", "APPEND",
    "APPENDS", "EMPTY_DICT", "SETITEM", "SETITEMS", "EMPTY_SET", "ADDITEMS", "GLOBAL",
    "STACK_GLOBAL", "REDUCE", "NEWOBJ", "BUILD", "BINPERSID",
)  # fmt: skip


class Storage(NamedTuple):
    """The bytes of an array or several: torch's name of its class, and the name of its member."""

    kind: str
    key: str


class Tensor(NamedTuple):
    """An array: its numbers in a storage, from `offset` on, with torch's strides."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class _Rebuild:
    """What a name in the pickle means. An object without attributes, which the pickle could set."""

    __slots__ = ()

    def __call__(
        self, storage: Storage, offset: int, shape: Any, strides: Any, *rest: Any
    ) -> Tensor:
        return Tensor(storage, int(offset), tuple(map(int, shape)), tuple(map(int, strides)))


class _First:
    """A function that returns its first argument."""

    __slots__ = ()

    def __call__(self, value: Any, *rest: Any) -> Any:
        return value


KNOWN = {
    ("collections", "OrderedDict"): OrderedDict,
    ("torch._utils", "_rebuild_tensor_v2"): _Rebuild(),
    ("torch._utils", "_rebuild_tensor"): _Rebuild(),
    ("torch._utils", "_rebuild_parameter"): _First(),
    ("torch", "Size"): _First(),
    ("torch", "device"): _First(),
    ("builtins", "set"): set,
    ("__builtin__", "set"): set,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in KNOWN:
            return KNOWN[module, name]
        if module == "torch" and (name in TYPES or name in OTHER_TYPES):
            return name
        if (module, name) in QUANTIZED:
            raise Refusal(
                f"it is of a quantized model: it names {module}.{name}.",
                "save the state_dict of the model from before it was quantized.",
            )
        raise Refusal(
            f"it has more than plain arrays, such as a module: it names {module}.{name}.", SAVING
        )

    def persistent_load(self, identity: Any) -> Storage:
        _, kind, key, *_ = identity
        return Storage(str(kind), str(key))


def _unpickled(content: bytes) -> Any:
    """What a pickle holds. Raises `Refusal` for an instruction or a name that is not known, and
    ValueError for a place in the memo that has not been written, for which the unpickler would take
    memory."""
    for count, (instruction, argument, _) in enumerate(pickletools.genops(content)):
        if instruction.name not in INSTRUCTIONS:
            what = (
                f"its pickle has the instruction {instruction.name}, which torch.save never writes."
            )
            raise Refusal(what, SAVING)
        if instruction.name in ("BINPUT", "LONG_BINPUT") and int(argument or 0) > count:
            raise ValueError(f"has a memo of {argument:,} values")
    return _Unpickler(io.BytesIO(content)).load()


def read_torch(path: Path) -> Checkpoint:
    """The arrays of the model in a file of torch.

    Raises `Refusal` if it has other things than arrays, or none.
    """
    size = path.stat().st_size
    with zipfile.ZipFile(path) as archive:
        check_claim(sum(entry.file_size for entry in archive.infolist()), size)
        (member,) = [name for name in archive.namelist() if name.endswith("data.pkl")]
        folder = member.removesuffix("data.pkl")
        endian = f"{folder}byteorder"
        if endian in archive.namelist() and archive.read(endian) == b"big":
            raise Refusal("a computer with big-endian numbers wrote it.", "save it on another one.")
        loaded = _unpickled(archive.read(member))
        if not isinstance(loaded, dict):
            raise Refusal(f"it has a {type(loaded).__name__}, not a state_dict.", SAVING)

        for number, _ in enumerate(_values(loaded)):
            if number > MOST:  # lists within lists, many times the same ones
                raise ValueError(f"has more than {MOST:,} values")
        kept = _of_model(loaded)
        prefix = ""  # of names that are left out
        if len(kept) == 1 and kept[0] in STATE_DICTS and isinstance(loaded[kept[0]], dict):
            prefix = f"{kept[0]}."
        contents = []
        others = 0
        claimed = 0
        for key, name, value in _values(loaded):
            if not isinstance(value, Tensor):
                continue
            if key not in kept:
                others += 1
                continue
            data = _data(archive, path, folder, name, value)
            claimed += data.size * data.dtype.itemsize
            contents.append((name.removeprefix(prefix), data))
    check_claim(claimed, size)
    return Checkpoint("torch", named(contents), path, optimizer=others)


def _data(archive: zipfile.ZipFile, path: Path, folder: str, name: str, tensor: Tensor) -> Data:
    """The array called `name`. Raises `Refusal` for types that NumPy lacks, and ValueError if it is
    not within its storage."""
    storage, offset, shape, strides = tensor
    if storage.kind not in TYPES:
        kind = OTHER_TYPES.get(storage.kind, storage.kind)
        raise Refusal(
            f"{name} has the type {kind}, which NumPy lacks.",
            "save it as float32: value.float() of each value of the state_dict.",
        )
    dtype = np.dtype(TYPES[storage.kind]).newbyteorder("<")
    member = f"{folder}data/{storage.key}"
    count = archive.getinfo(member).file_size // dtype.itemsize
    reach = 0 if 0 in shape else 1
    contiguous: list[int] = []  # the strides of an array whose last index varies fastest
    step = 1
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        reach += max(extent - 1, 0) * stride if reach else 0
        contiguous.insert(0, stride if extent == 1 else step)
        step *= extent
    if min((offset, *shape, *strides), default=0) < 0 or offset + reach > count:
        raise ValueError(f"has an array {name} that is not in its storage")

    start = in_archive(archive, path, member)
    if start is None:
        whole: Data = np.frombuffer(archive.read(member), dtype)[offset : offset + reach]
    else:
        start += offset * dtype.itemsize
        if list(strides) == contiguous:
            return InFile(path, start, shape, dtype)
        whole = InFile(path, start, [reach], dtype)

    def strided() -> list[np.ndarray]:
        steps = [stride * dtype.itemsize for stride in strides]
        return [np.lib.stride_tricks.as_strided(np.asarray(whole), shape, steps)]

    return Computed(shape, dtype, strided)


def _values(tree: dict[Any, Any]) -> Iterator[tuple[Any, str, Any]]:
    """Yields the values in a tree of dicts and lists, with the key of the tree that they are below
    and their dotted names."""
    for key, value in tree.items():
        for name, each in _leaves(value, str(key)):
            yield key, name, each


def _leaves(tree: Any, name: str) -> Iterator[tuple[str, Any]]:
    if isinstance(tree, list | tuple) and not isinstance(tree, Tensor):
        tree = dict(enumerate(tree))
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from _leaves(value, f"{name}.{key}")
    else:
        yield name, tree


def _of_model(loaded: dict[Any, Any]) -> list[Any]:
    """The keys of a file of torch under which there are arrays of the model, and not the state of a
    training.

    Beside a state_dict under one of `STATE_DICTS`, only other state_dicts are the model's, such as
    averaged weights: Lightning also has the state of optimizers, loops and callbacks, with arrays
    in them.
    """
    main = [key for key in STATE_DICTS if isinstance(loaded.get(key), dict)]
    kept = []
    for key, value in loaded.items():
        is_state = isinstance(value, dict) and bool(value)
        is_state = is_state and all(isinstance(each, Tensor) for each in value.values())
        if (key in main[:1] or not main or is_state) and not _has_optimizer(value):
            kept.append(key)
    return kept


def _has_optimizer(tree: Any) -> bool:
    """Whether the state of an optimizer of torch is in a tree."""
    if isinstance(tree, list | tuple):
        return any(_has_optimizer(each) for each in tree)
    if not isinstance(tree, dict):
        return False
    return "param_groups" in tree or any(_has_optimizer(each) for each in tree.values())
