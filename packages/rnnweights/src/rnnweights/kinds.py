"""The kind of a checkpoint's file, from its content."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path

import h5py

from rnnweights.cells import Refusal

SAVEZ = (
    "save its arrays with numpy.savez under the names of their framework and state its layout: "
    "--layout haiku.LSTM, paddle.GRU, …"
)
# Formats whose arrays have names, or an order, and no layout → a layout to state, for example.
OTHER_FORMATS = {
    "flax (msgpack)": "flax.linen.LSTMCell",
    "equinox": "equinox.LSTMCell",
    "MXNet": "mxnet.LSTM",
    "MindSpore": "mindspore.LSTM",
    "TensorFlow.js": "keras.LSTM",
}
# Ends of names of files that are Python pickles, and how to get the arrays out of them.
PICKLES = {
    ".pdparams": "numpy.savez(FILE, **{k: v.numpy() for k, v in layer.state_dict().items()}), "
    "--layout paddle.LSTM.",
}
SHARD = re.compile(r"(.+)\.(meta|data-\d{5}-of-\d{5})")
TABLE = bytes.fromhex("57fb808b247547db")  # the end of a file of Saver's first version
OLD_TORCH = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."  # the magic number, pickled
# Place and bytes → format. Of those that are not read.
OTHERS = (
    (0, b"\x80", "a Python pickle, which can run code"),
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
    """``TensorFlow``, ``torch``, ``.h5`` (also of ``.weights.h5``), ``.keras``, ``.npz``,
    ``safetensors``, ``ONNX`` or one of `OTHER_FORMATS`.

    `path`: a file, the prefix of TensorFlow's files or the folder of a SavedModel. Raises `Refusal`
    for a kind that is not read.
    """
    of_tensorflow = [path.with_name(f"{path.name}.index")]
    if path.is_dir():
        of_tensorflow += [path / "saved_model.pb", path / "checkpoint"]
    if SHARD.fullmatch(path.name):  # one of its files
        prefix = path.with_name(SHARD.sub(r"\1", path.name))
        index = prefix.with_name(f"{prefix.name}.index")
        if not index.exists():
            raise Refusal(
                f"it is a file of a checkpoint of TensorFlow, and {index.name} is missing.",
                "use the complete checkpoint: .index and .data-… files.",
            )
        return "TensorFlow"
    if path.suffix == ".index" or any(file.exists() for file in of_tensorflow):
        return "TensorFlow"
    if path.is_dir():
        for name in ("_METADATA", "_CHECKPOINT_METADATA", "manifest.ocdbt"):
            if any(path.rglob(name)):
                raise Refusal(
                    "it is a checkpoint of orbax, which only orbax reads.",
                    f"restore it and {SAVEZ}",
                )
    if not path.is_file():
        what = "it does not exist."
        if path.exists():
            what = "it is not a file."
        raise Refusal(what, "name a file, the prefix of a TensorFlow checkpoint, or a SavedModel.")

    with path.open("rb") as file:
        head = file.read(64)
    if not head:
        raise Refusal("it is empty.", "use the complete file.")
    if head.startswith(b"PK"):  # before HDF5, which may begin at byte 512, 1024, … of any file
        return _kind_of_archive(path)
    if h5py.is_hdf5(path):
        return ".h5"
    length = int.from_bytes(head[:8], "little")  # of the header of safetensors
    if head[8:9] == b"{" and length < path.stat().st_size:
        return "safetensors"

    if _ends_with(path, TABLE):
        return "TensorFlow"
    if path.name == "saved_model.pb":
        raise Refusal("it is the graph of a SavedModel, without arrays.", "name its folder.")
    if path.suffix == ".onnx" or (head[:1] == b"\x08" and head[2:3] == b"\x12"):
        return "ONNX"
    other = _other_format(path, head)
    if other:
        return other
    if path.suffix in PICKLES and head[:1] == b"\x80":
        raise Refusal("it is a Python pickle, which can run code.", PICKLES[path.suffix])
    if head.startswith(OLD_TORCH):
        raise Refusal(
            "it is a file of torch before 1.6, which is a Python pickle and no ZIP archive.",
            "load it with torch and weights_only=True, and torch.save its state_dict again.",
        )
    for place, start, name in OTHERS:
        if head[place:].startswith(start):
            raise Refusal(f"it is {name}.", SAVEZ)
    raise Refusal(f"its format is unknown; it begins with {head[:8]!r}.", SAVEZ)


def _other_format(path: Path, head: bytes) -> str:
    """One of `OTHER_FORMATS`, empty for a file of another one."""
    if head.startswith(b"\x93NUMPY"):
        return "equinox"
    if head.startswith((0x112).to_bytes(8, "little")):
        return "MXNet"
    if head[:1] in (b"\xde", b"\xdf") or 0x81 <= head[0] <= 0x8F:  # a map of msgpack
        return "flax (msgpack)"
    if head[:1] == b"\n" and path.suffix == ".ckpt":
        return "MindSpore"
    if head.lstrip()[:1] == b"{" and b'"weightsManifest"' in path.read_bytes():
        return "TensorFlow.js"
    return ""


def _ends_with(path: Path, end: bytes) -> bool:
    """Whether the last bytes of a file are these."""
    with path.open("rb") as file:
        size = file.seek(0, io.SEEK_END)
        file.seek(max(size - len(end), 0))
        return file.read() == end


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
