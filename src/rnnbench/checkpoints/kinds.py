"""The kind of a checkpoint's file, from its content."""

from __future__ import annotations

import zipfile
from pathlib import Path

import h5py

from rnnbench.weights.cells import Refusal

SAVEZ = "save its arrays with numpy.savez, named LAYER/kernel, LAYER/recurrent_kernel, LAYER/bias."
# Place and bytes → format. Of those that are not read.
OTHERS = (
    (0, b"\x80", "a Python pickle, which can run code"),
    (0, b"\x93NUMPY", "one NumPy array without a name"),
    (4, b"TFL3", "a TensorFlow Lite file"),
    (0, b"GGUF", "a GGUF file"),
    (0, b"\x1f\x8b", "a gzip file"),
    (0, b"BZh", "a bzip2 file"),
    (0, b"\xfd7zXZ", "an xz file"),
    (0, b"x\x9c", "a zlib file, perhaps of joblib"),
    (0, b"MATLAB", "a MATLAB file"),
    (0, b"{", "a JSON file, perhaps a model's configuration without arrays"),
)


def kind_of(path: Path) -> str:
    """``TensorFlow``, ``torch``, ``.h5`` (also of ``.weights.h5``), ``.keras``, ``.npz`` or
    ``safetensors``.

    `path`: a file, the prefix of TensorFlow's files or the folder of a SavedModel. Raises `Refusal`
    for a kind that is not read.
    """
    of_tensorflow = [path.with_name(f"{path.name}.index")]
    if path.is_dir():
        of_tensorflow += [path / "saved_model.pb", path / "checkpoint"]
    if path.suffix == ".index" or any(file.exists() for file in of_tensorflow):
        return "TensorFlow"
    if not path.is_file():
        what = "it does not exist."
        if path.exists():
            what = "it is not a file."
        raise Refusal(what, "name a file, the prefix of a TensorFlow checkpoint, or a SavedModel.")

    with path.open("rb") as file:
        head = file.read(64)
    if not head:
        raise Refusal("it is empty.", "use the complete file.")
    if h5py.is_hdf5(path):
        return ".h5"
    if head.startswith(b"PK"):
        return _kind_of_archive(path)
    length = int.from_bytes(head[:8], "little")  # of the header of safetensors
    if head[8:9] == b"{" and length < path.stat().st_size:
        return "safetensors"

    if path.name == "saved_model.pb":
        raise Refusal("it is the graph of a SavedModel, without arrays.", "name its folder.")
    if path.suffix == ".onnx" or (head[:1] == b"\x08" and head[2:3] == b"\x12"):
        raise Refusal("it is an ONNX file.", f"read it with the package onnx and {SAVEZ}")
    for place, start, name in OTHERS:
        if head[place:].startswith(start):
            raise Refusal(f"it is {name}.", SAVEZ)
    raise Refusal(f"its format is unknown; it begins with {head[:8]!r}.", SAVEZ)


def _kind_of_archive(path: Path) -> str:
    """The kind of a ZIP archive, from the names in it."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except zipfile.BadZipFile as error:
        raise Refusal(
            f"it is a damaged or incomplete ZIP archive ({error}).",
            "use the complete file.",
        ) from error

    if "config.json" in names and "model.weights.h5" in names:
        return ".keras"
    files = {name.rpartition("/")[2] for name in names}
    if "constants.pkl" in files:
        raise Refusal("it is a TorchScript program.", "torch.save(model.state_dict(), FILE).")
    if "data.pkl" in files:
        return "torch"
    if names and all(name.endswith(".npy") for name in names):
        return ".npz"
    found = ", ".join(names[:3]) or "nothing"
    raise Refusal(f"it is a ZIP archive with {found}.", SAVEZ)
