"""Files of arrays that have names and nothing else: ``.npz`` and safetensors, read and written."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import safetensors

from rnnweights.checkpoint import (
    Array,
    Checkpoint,
    InFile,
    Refusal,
    WrittenBehind,
    check_claim,
    named,
    pieces,
)

# The types of safetensors that NumPy has, and what torch calls others.
NUMPYS = ("BOOL", "U8", "I8", "U16", "I16", "U32", "I32", "U64", "I64", "F16", "F32", "F64", "C64")
OF_TORCH = {"BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2"}
WRITTEN = dict(zip("?BbHhIiQqefdF", NUMPYS, strict=True))  # by the characters of NumPy's types
LOCAL_HEADER = 30  # bytes of a member of a ZIP archive before its name


def in_archive(archive: zipfile.ZipFile, path: Path, member: str) -> int | None:
    """Where the bytes of a member begin in the file of a ZIP archive; None if it is compressed."""
    entry = archive.getinfo(member)
    if entry.compress_type != zipfile.ZIP_STORED:
        return None
    with path.open("rb") as file:
        file.seek(entry.header_offset)
        header = file.read(LOCAL_HEADER)
    of_name = int.from_bytes(header[26:28], "little")
    of_extra = int.from_bytes(header[28:30], "little")
    return entry.header_offset + LOCAL_HEADER + of_name + of_extra


def read_npz(path: Path) -> Checkpoint:
    """An ``.npz`` file, whose comment has the order of its arrays if rnnweights wrote it."""
    contents = []
    with zipfile.ZipFile(path) as archive:
        claimed = sum(member.file_size for member in archive.infolist())
        # What an array's header claims takes no memory: NumPy reads an array piece by piece.
        check_claim(claimed, path.stat().st_size)
        for member in archive.namelist():
            contents.append((member.removesuffix(".npy"), _array_in(archive, path, member)))
        comment = archive.comment
    arrays = named(contents)

    try:
        about = json.loads(comment)
    except ValueError:  # the comment of another program
        about = {}
    if not isinstance(about, dict):
        about = {}

    texts = {key: str(value) for key, value in about.items()}
    order = texts.pop("order", "none")
    return Checkpoint(
        ".npz",
        arrays,
        path,
        order=order,
        settings=_settings(texts.pop("settings", "")),
        attributes=texts,
        is_own="order" in about,
    )


def _settings(text: str) -> dict[str, dict[str, Any]]:
    """The settings of cells that rnnweights has written beside their arrays."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    return {scope: each for scope, each in found.items() if isinstance(each, dict)}


def _array_in(archive: zipfile.ZipFile, path: Path, member: str) -> np.ndarray | InFile:
    """An array of an archive: where it is, or, if it is compressed, its values."""
    start = in_archive(archive, path, member)
    if start is None:
        with archive.open(member) as file:
            return np.lib.format.read_array(file, allow_pickle=False)
    with path.open("rb") as file:
        file.seek(start)
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(file)
        else:
            shape, is_fortran, dtype = np.lib.format.read_array_header_2_0(file)
        size = int(np.prod(shape, dtype=object)) * dtype.itemsize
        if dtype.hasobject:
            raise ValueError("Object arrays cannot be loaded when allow_pickle=False")
        if size != archive.getinfo(member).file_size - (file.tell() - start):
            raise ValueError(f"the header of {member} claims {size:,} bytes")
        return InFile(path, file.tell(), shape, dtype, is_fortran)


def _names_in(text: str | None) -> list[str] | None:
    """The names in a JSON list; None for what another program wrote."""
    try:
        names = json.loads(text or "")
    except ValueError:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return None
    return names


def read_safetensors(path: Path) -> Checkpoint:
    """A file of safetensors, whose metadata has the names in order if rnnweights wrote it."""
    with safetensors.safe_open(path, framework="numpy") as file:
        about = dict(file.metadata() or {})
        names = list(file.keys())
        written = _names_in(about.get("names"))
        if written is not None:
            names = written
            del about["names"]
        if set(names) != set(file.keys()):
            raise Refusal("its header names other arrays than it has.", "use a complete file.")
        places = _places(path)
        contents = []
        for name in names:
            kind = file.get_slice(name).get_dtype()
            if kind not in NUMPYS:
                raise Refusal(
                    f"{name} has the type {OF_TORCH.get(kind, kind)}, which NumPy lacks.",
                    "save it as float32.",
                )
            contents.append((name, places[name]))

    is_own = "order" in about
    order = about.pop("order", "none")
    return Checkpoint(
        "safetensors",
        named(contents),
        path,
        order=order,
        settings=_settings(about.pop("settings", "")),
        attributes=about,
        is_own=is_own,
    )


def _places(path: Path) -> dict[str, InFile]:
    """Where the arrays are in a file of safetensors, whose header the library has accepted."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    names = dict(zip(NUMPYS, WRITTEN, strict=True))
    places = {}
    for name, about in header.items():
        if name != "__metadata__" and about["dtype"] in names:
            start = 8 + length + about["data_offsets"][0]
            dtype = np.dtype(names[about["dtype"]]).newbyteorder("<")
            places[name] = InFile(path, start, about["shape"], dtype)
    return places


def write_npz(path: Path, arrays: Sequence[Array], about: Mapping[str, str]) -> None:
    """Writes an ``.npz`` file.

    `about`: facts such as the order of the arrays, for the comment of the archive, which numpy.load
    does not read.
    """
    with WrittenBehind(path.open("wb")) as behind, zipfile.ZipFile(behind, "w") as archive:
        for array in arrays:
            member = f"{array.name}.npy"
            with archive.open(member, "w", force_zip64=True) as file:
                about_array = {
                    "descr": np.lib.format.dtype_to_descr(array.data.dtype),
                    "fortran_order": False,
                    "shape": array.data.shape,
                }
                np.lib.format.write_array_header_1_0(file, about_array)
                for piece in pieces(array.data):
                    file.write(np.ascontiguousarray(piece).data)
        archive.comment = json.dumps(about).encode()


def write_safetensors(path: Path, arrays: Sequence[Array], about: Mapping[str, str]) -> None:
    """Writes a safetensors file, piece by piece, which the library does not.

    `about`: facts for its metadata, which also has the names in order. Source:
    huggingface.co/docs/safetensors, Format.
    """
    names = [array.name for array in arrays]
    header: dict[str, object] = {"__metadata__": {**about, "names": json.dumps(names)}}
    place = 0
    # The library wants those with the largest items first, for their alignment.
    arrays = sorted(arrays, key=lambda array: (-array.data.dtype.itemsize, array.name))
    for array in arrays:
        kind = WRITTEN.get(array.data.dtype.char.replace("l", "q").replace("L", "Q"))
        if kind is None:
            raise Refusal(
                f"{array.name} has the type {array.data.dtype}, which safetensors lacks.",
                "write .npz.",
            )
        end = place + array.data.size * array.data.dtype.itemsize
        header[array.name] = {
            "dtype": kind,
            "shape": array.data.shape,
            "data_offsets": [place, end],
        }
        place = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with WrittenBehind(path.open("wb")) as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for array in arrays:
            dtype = array.data.dtype.newbyteorder("<")
            for piece in pieces(array.data):
                file.write(np.ascontiguousarray(piece, dtype).data)
