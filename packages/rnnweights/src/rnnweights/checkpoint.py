"""A checkpoint that was read, and what all of its formats need: arrays that stay in their file
until they are asked for, checks of values and sizes, and the names of arrays."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, Protocol, Self

import h5py
import numpy as np

PARTS = ("kernel", "recurrent_kernel", "bias")  # in Keras's order
SAVEZ = (
    "save its arrays with numpy.savez under the names of their framework and state its layout: "
    "--layout haiku.LSTM, paddle.GRU, …"
)
# What a file holds at most in memory: times its size, and bytes besides.
INFLATION = 100
SMALL = 2**20
NOTHING = re.compile(r"(?!)")
IN_CELL = re.compile(r"/(lstm|gru|simple_rnn)_cell(_\d+)?(?=/[^/]*$)")


class Refusal(ValueError):
    """A checkpoint cannot be read or converted: `what` is wrong with a layer or a file, and the
    `remedy`. Both are sentences for the user. `where`: the file."""

    def __init__(
        self,
        what: str,
        remedy: str = "use a checkpoint whose arrays agree.",
        where: str = "",
    ):
        super().__init__(what)
        self.what = what
        self.remedy = remedy
        self.where = where

    def line(self) -> str:
        """One line for the user."""
        return " ".join(f"{self.where}: {self.what} Fix: {self.remedy}".split())


class Data(Protocol):
    """An array, or what ``numpy.asarray`` makes one of: an array of h5py, `InFile`, `Computed`."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> np.dtype[Any]: ...

    @property
    def ndim(self) -> int: ...

    @property
    def size(self) -> int: ...

    def __len__(self) -> int: ...

    def __array__(self) -> np.ndarray: ...


class InFile:
    """An array that stays in its file: ``numpy.asarray`` maps it into memory, read-only.

    `path`, `offset`: the file, and the place of the first byte there; `fortran`: whether the first
    index varies fastest.
    """

    def __init__(
        self,
        path: Path,
        offset: int,
        shape: Sequence[int],
        dtype: np.dtype[Any],
        fortran: bool = False,
    ):
        self.path = path
        self.offset = offset
        self.shape = tuple(shape)
        self.dtype = dtype
        self.fortran = fortran
        self.in_pieces = not fortran
        self.ndim = len(self.shape)
        self.size = math.prod(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if self.offset + self.size * self.dtype.itemsize > self.path.stat().st_size:
            raise _cut()
        if not self.size:
            return np.empty(self.shape, dtype or self.dtype)
        order: Literal["C", "F"] = "F" if self.fortran else "C"
        mapped = np.memmap(self.path, self.dtype, "r", self.offset, self.shape, order)
        values = mapped.view(np.ndarray)
        return values if dtype is None else values.astype(dtype)

    def rows(self, count: int) -> Iterator[np.ndarray]:
        """Yields the rows, `count` at a time. Each piece is mapped on its own, read-only: its bytes
        are moved once, when they are written, and it leaves memory with its last reference."""
        if self.offset + self.size * self.dtype.itemsize > self.path.stat().st_size:
            raise _cut()
        row = self.size // len(self) * self.dtype.itemsize
        with self.path.open("rb") as file:
            for start in range(0, len(self), count):
                shape = (min(count, len(self) - start), *self.shape[1:])
                place = self.offset + start * row
                yield np.memmap(file, self.dtype, "r", place, shape).view(np.ndarray)


def _cut() -> Refusal:
    return Refusal("it ends within an array.", "use the complete file.")


def _two_buffers(data: Data, rows: int) -> Iterator[np.ndarray]:
    """Yields one of two buffers for as many rows of an array, in turn, without end."""
    shape = (min(rows, len(data)), *data.shape[1:])
    return itertools.cycle([np.empty(shape, data.dtype), np.empty(shape, data.dtype)])


def _copy(view: np.ndarray, target: np.ndarray) -> None:
    """Copies an array. A transposed matrix is copied in tiles, through a buffer: whole rows of it
    are places in memory at distances of a power of two, which share few lines of a cache."""
    if view.ndim != 2 or view.strides[0] >= view.strides[1]:
        target[...] = view
        return
    buffer = np.empty((TILE, len(view) + PAD), view.dtype)
    for start in range(0, view.shape[1], TILE):
        tile = view[:, start : start + TILE].T
        buffered = buffer[: len(tile), : len(view)]
        buffered[...] = tile
        target[:, start : start + TILE] = buffered.T


class Computed:
    """An array that is made of others, each time it is asked for.

    `make`: returns its blocks, which are joined along `axis`. They should be views of what is read:
    then the array is in memory once while it is written.
    """

    def __init__(
        self,
        shape: Sequence[int],
        dtype: np.dtype[Any],
        make: Callable[[], Sequence[np.ndarray]],
        axis: int = -1,
    ):
        self.shape = tuple(shape)
        self.dtype = dtype
        self.make = make
        self.axis = axis
        self.ndim = len(self.shape)
        self.size = math.prod(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        blocks = self.make()
        values = blocks[0] if len(blocks) == 1 else np.concatenate(blocks, self.axis)
        return values if dtype is None else values.astype(dtype)

    def rows(self, count: int) -> Iterator[np.ndarray]:
        """As `InFile.rows`, but of a block at a time if blocks are joined along their rows."""
        blocks = self.make()
        buffers = _two_buffers(self, count)
        groups = [[block] for block in blocks] if self.axis == 0 else [blocks]
        for group in groups:
            for start in range(0, len(group[0]), count):
                parts = [block[start : start + count] for block in group]
                piece = next(buffers)[: len(parts[0])]
                end = 0
                for part in parts:
                    begin, end = end, end + part.shape[-1]
                    _copy(part, piece[..., begin:end])
                yield piece


class Watched(Computed):
    """An array, of which `broken` is called if it is read and has values that are not finite."""

    def __init__(self, data: Data, broken: Callable[[], None]):
        def make() -> list[np.ndarray]:
            values = np.asarray(data)
            self.look_at(values)
            return [values]

        super().__init__(data.shape, data.dtype, make)
        self.data = data
        self.broken = broken

    def look_at(self, values: np.ndarray) -> None:
        if not is_finite(values):
            self.broken()


class Array(NamedTuple):
    """One array of a checkpoint.

    `name`: unique, such as ``both/forward/kernel``;
    `place`: its name in the file, such as ``both/forward_lstm/lstm_cell/kernel:0``;
    `data`: its values, or where they are;
    `layer`: the name of the Keras layer that has it, empty if the file does not say it.
    """

    name: str
    place: str
    data: Data
    layer: str

    @property
    def values(self) -> np.ndarray:
        """The values, which are read if they are in a file."""
        return np.asarray(self.data)

    @property
    def scope(self) -> str:
        """The name without its last part, such as ``both/forward``."""
        return self.name.rpartition("/")[0]

    @property
    def part(self) -> str:
        """The last part of the name, such as ``kernel``."""
        return self.name.rpartition("/")[2]


PIECE = 2**22  # bytes
LARGE = 2**24  # bytes of an array
# Bytes that are written at once. For more, Linux takes huge pages. Those that are free, a virtual
# machine gives back to its host, and writing to them again took three times as long.
STEP = 2**20
TILE = 256  # columns of a matrix that is transposed: with the rows of a piece, they stay in a cache
PAD = 16  # numbers between the rows of a tile


class WrittenBehind:
    """A `file`, into which a second thread writes while the caller makes what comes next.

    What `write` is given must not change until the next call returns. The error of a write is
    raised by a later call.
    """

    def __init__(self, file: BinaryIO):
        self._file = file
        self._writer = ThreadPoolExecutor(1)
        self._written: Future[None] = self._writer.submit(lambda: None)

    def write(self, values: bytes | memoryview) -> int:
        self._written.result()
        size = memoryview(values).nbytes
        if size:
            self._written = self._writer.submit(self._write, np.frombuffer(values, "u1"))
        return size

    def _write(self, values: np.ndarray) -> None:
        for start in range(0, len(values), STEP):
            self._file.write(values[start : start + STEP].data)

    def seek(self, place: int) -> int:
        self._written.result()
        return self._file.seek(place)

    def tell(self) -> int:
        self._written.result()
        return self._file.tell()

    def flush(self) -> None:
        self._written.result()
        self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._writer.shutdown()
        self._file.close()
        self._written.result()


def pieces(data: Data) -> Iterator[np.ndarray]:
    """Yields the rows of an array in pieces of about 4 MB, so that a large one never is in
    memory as a whole. A piece holds until the next but one is asked for."""
    if isinstance(data, Watched):
        for piece in pieces(data.data):
            data.look_at(piece)
            yield piece
        return
    row = math.prod(data.shape[1:]) * data.dtype.itemsize
    if not data.shape or not row:
        yield np.asarray(data)
        return

    rows = max(PIECE // row, 1)
    if isinstance(data, Computed) or (isinstance(data, InFile) and data.in_pieces):
        yield from data.rows(rows)
    elif isinstance(data, h5py.Dataset):
        yield from _rows_of_hdf5(data, rows)
    else:
        values = np.asarray(data)
        for start in range(0, len(values), rows):
            yield values[start : start + rows].copy()


def _rows_of_hdf5(data: h5py.Dataset, count: int) -> Iterator[np.ndarray]:
    """As `InFile.rows`. Whole chunks are read, if it has any."""
    if data.chunks:
        count = math.ceil(count / data.chunks[0]) * data.chunks[0]
    buffers = _two_buffers(data, count)
    for start in range(0, len(data), count):
        piece = next(buffers)[: len(data) - start]
        data.read_direct(piece, np.s_[start : start + len(piece)])
        yield piece


def is_finite(values: np.ndarray) -> bool:
    """Whether no value is NaN or infinite. Such a value makes the sum NaN or infinite, and the sum
    takes a third of the time; but it may also become infinite by itself."""
    with np.errstate(all="ignore"):
        total = values.sum()
    return bool(np.isfinite(total) or np.isfinite(values).all())


@dataclass(frozen=True)
class Checkpoint:
    """The arrays of a file.

    `kind`: how the arrays are stored, such as ``.keras`` or ``torch``;
    `path`: the file;
    `config`: the model's configuration, if the file has one;
    `container`: the group with the layers in a file of Keras 3, or of Keras 2.13;
    `order`: whether the file has that of the ``layers``, also of the ``arrays`` in a layer, or
    ``none``;
    `optimizer`: the number of arrays of the optimizer and the metrics, which are not in `arrays`;
    `attributes`: the versions of Keras and its backend;
    `labels`: the names of layers and cells by their groups, in a file of Keras 3.4 and later;
    `items`: the cells and other arrays, of a format that describes them, such as ONNX;
    `is_own`: whether rnnweights wrote it, which says the layout in it;
    `settings`: the settings of cells by their scopes, in such a file.
    """

    kind: str
    arrays: Sequence[Array]
    path: Path = Path()
    config: dict[str, Any] | None = None
    container: str = "layers"
    order: str = "none"
    optimizer: int = 0
    attributes: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    items: Sequence[Any] = ()
    is_own: bool = False
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def check_claim(claimed: int, size: int) -> None:
    """Raises `Refusal` if a file of `size` bytes says that it holds much more: `claimed` bytes."""
    if claimed > INFLATION * size + SMALL:
        raise Refusal(
            f"its arrays should have {claimed:,} bytes, but the file has only {size:,}.",
            "use the complete file.",
        )


def numbers(name: str, values: Any) -> Data:
    """The `values` of the array `name`, or where they are if they are in one piece of a file.
    Raises `Refusal` unless they are an array of numbers."""
    what = f"{name} is not an array of numbers"
    remedy = "save it as float32."
    if not isinstance(values, np.ndarray | h5py.Dataset | InFile | Computed):
        raise Refusal(f"{what}.", remedy)
    if values.dtype.kind not in "biufc":
        raise Refusal(f"{what} (type {values.dtype}).", remedy)
    if isinstance(values, h5py.Dataset):
        offset = values.id.get_offset()
        is_as_it_is = values.id.get_type() == h5py.h5t.py_create(values.dtype, logical=True)
        if offset is not None and is_as_it_is and values.file.driver != "fileobj":
            return InFile(Path(values.file.filename), offset, values.shape, values.dtype)
    return values


def named(contents: Iterable[tuple[str, Any]]) -> list[Array]:
    """Arrays that have names alone, as Keras or torch gives them: the first part is the layer.

    `contents`: pairs of a name and values. Raises `Refusal` for values that are not numbers.
    """
    arrays = []
    for place, values in contents:
        name = re.sub(r":\d+$", "", place)
        if name in PARTS:
            name = f"rnn/{name}"
        layer, separator, _ = name.partition("/")
        if not separator:
            layer = ""
        array = Array(
            name,
            place,
            numbers(place, values),
            layer,
        )
        arrays.append(array)
    return tidy(arrays)


def tidy(arrays: Sequence[Array]) -> list[Array]:
    """The arrays of a layer with shorter names: without ``lstm_cell``, and with ``forward`` and
    ``backward`` for directions, as in ``both/forward/kernel``.

    If two arrays would have the same name, they keep ``lstm_cell``, their own names, or else those
    in the file.
    """
    for inside in (IN_CELL, NOTHING):  # cells of a stack keep their names
        tidied = []
        for array in arrays:
            name = inside.sub("", array.name)
            name = re.sub(r"/(forward|backward)_[^/]*(?=/)", r"/\1", name)
            tidied.append(array._replace(name=name.lstrip("/")))
        if have_unique_names(tidied):
            return tidied
    if have_unique_names(arrays):
        return list(arrays)
    return [array._replace(name=f"{array.layer}/{array.place}") for array in arrays]


def have_unique_names(arrays: Sequence[Array]) -> bool:
    """Whether no two of the arrays have the same name."""
    names = {array.name for array in arrays}
    return len(names) == len(arrays)
