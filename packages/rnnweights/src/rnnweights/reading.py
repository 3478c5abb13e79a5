"""Checkpoint files → their arrays, with names that are unique and the model's configuration.

The content of a file decides how it is read, not its name:

- HDF5 of Keras 2 and 3 (``.h5``, ``.weights.h5``) and ``.keras``: `keras_files`;
- ``.npz`` and safetensors: `array_files`;
- ONNX: `onnx_files`;
- LiteRT: `litert_files`;
- flax, orbax, equinox, MXNet, MindSpore and TensorFlow.js: `other_formats`;
- torch: `torch_files`;
- TensorFlow: `tensorflow_files`.

Pickles are refused, but for the one in a file of torch, of which `torch_files` runs a few
instructions. Nothing else that is read could run code.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path

import h5py

from rnnweights import array_files, keras_files, other_formats, tensorflow_files, torch_files
from rnnweights.cells import Cell, Item
from rnnweights.checkpoint import SAVEZ, Array, Checkpoint, Refusal, named
from rnnweights.frameworks import Worker
from rnnweights.layer_tree import check_model
from rnnweights.layouts import Layout
from rnnweights.litert_files import read_litert
from rnnweights.onnx_files import read_onnx
from rnnweights.other_formats import OF_ORBAX

FLAX = "flax (msgpack)"
# Formats whose arrays have names, or an order, and no layout → a layout to state, for example.
OTHER_FORMATS = {
    FLAX: "flax.linen.LSTMCell",
    "orbax": "flax.linen.LSTMCell",
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
OLD_TORCH = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."  # the magic number, pickled
# Place and bytes → format. Of those that are not read.
OTHERS = (
    (0, b"\x80", "a Python pickle, which can run code"),
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
    ``safetensors``, ``ONNX``, ``LiteRT`` or one of `OTHER_FORMATS`.

    `path`: a file, the prefix of TensorFlow's files or the folder of a SavedModel or of orbax.
    Raises `Refusal` for a kind that is not read.
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
    if path.suffix == ".index" or any(file.is_file() for file in of_tensorflow):
        return "TensorFlow"
    if path.name in OF_ORBAX:
        raise Refusal("it is a file of a checkpoint of orbax.", "name its folder.")
    if path.is_dir() and any(any(path.rglob(name)) for name in OF_ORBAX):
        return "orbax"
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

    if _ends_with(path, tensorflow_files.TABLE):
        return "TensorFlow"
    if path.name == "saved_model.pb":
        raise Refusal("it is the graph of a SavedModel, without arrays.", "name its folder.")
    if path.suffix == ".onnx" or (head[:1] == b"\x08" and head[2:3] == b"\x12"):
        return "ONNX"
    if head[4:8] == b"TFL3":
        return "LiteRT"
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
        return FLAX
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
    if "archive_format" in files or "models/model.json" in names:
        raise Refusal("it is a program of torch.export.", "torch.save(model.state_dict(), FILE).")
    if "data.pkl" in files:
        return "torch"
    if names and all(name.endswith(".npy") for name in names):
        return ".npz"
    found = ", ".join(names[:3]) or "nothing"
    raise Refusal(f"it is a ZIP archive with {found}.", SAVEZ)


def read(path: Path, worker: Worker, layouts: Sequence[Layout] = ()) -> Checkpoint:
    """The checkpoint in a file.

    `path`: the file, the prefix of TensorFlow's files or the folder of a SavedModel;
    `layouts`: those that the user states, of a file that does not say what its arrays are;
    `worker`: asks a build, which has TensorFlow or torch. Raises `Refusal` if it is no checkpoint,
    is damaged or has links to other files.
    """
    kind = kind_of(path)
    is_other = any(not layout.is_kerass for layout in layouts)
    try:
        if kind in OTHER_FORMATS or (kind == ".h5" and is_other):
            checkpoint = _of_another(path, kind, layouts, worker)
        elif kind == "safetensors":
            checkpoint = array_files.read_safetensors(path)
        elif kind == ".npz":
            checkpoint = array_files.read_npz(path)
        elif kind == "TensorFlow":
            checkpoint = tensorflow_files.read_tensorflow(path, worker)
        elif kind == "torch":
            checkpoint = torch_files.read_torch(path)
        elif kind == "ONNX":
            checkpoint = _with_items("ONNX", read_onnx(path.read_bytes()))
        elif kind == "LiteRT":
            checkpoint = _with_items("LiteRT", read_litert(path.read_bytes()))
        elif kind == ".keras":
            checkpoint = keras_files.read_archive(path)
        else:
            checkpoint = keras_files.read_hdf5(path)
    except Refusal:
        raise
    except Exception as error:  # h5py, NumPy, zipfile and safetensors raise many types
        reason = f"{type(error).__name__}: {error}"
        if kind in (".npz", "safetensors"):
            raise Refusal(
                f"it is damaged, or not all of its arrays are numbers that NumPy has ({reason}).",
                "use the complete file, and save its arrays as float32.",
            ) from error
        if kind in ("ONNX", "LiteRT", "TensorFlow", "torch") or kind in OTHER_FORMATS:
            raise Refusal(
                f"it is a damaged file of {kind} ({reason}).",
                "use the complete file.",
            ) from error
        raise Refusal(
            f"it is damaged or not of Keras ({reason}).",
            "use a file that Keras wrote.",
        ) from error

    if not checkpoint.arrays:
        raise Refusal("it has no arrays of layers.", "use a checkpoint of a model with weights.")
    return checkpoint


def _of_another(path: Path, kind: str, layouts: Sequence[Layout], worker: Worker) -> Checkpoint:
    """A file whose arrays have names, but not the order of their gates.

    Raises `Refusal` unless the user states a layout.
    """
    if kind == "TensorFlow.js":
        return _tensorflow_js(path)
    if not layouts:
        remedy = f"state the layout of its cells: --layout {OTHER_FORMATS[kind]}, …"
        what = f"a file of {kind}"
        if kind == "equinox":
            what = "one NumPy array without a name, or several as equinox writes them"
        raise Refusal(f"it is {what}, which does not say the order of its gates.", remedy)
    if kind == ".h5":
        file = keras_files.opened(path, path.stat().st_size)
        return Checkpoint(kind, named(other_formats.hdf5(file)), path)
    if kind == "orbax":
        return _of_flax(kind, other_formats.orbax(path, worker))
    content = path.read_bytes()
    if kind == FLAX:
        return _of_flax(kind, other_formats.msgpack(content))
    if kind == "MXNet":
        arrays = named(other_formats.mxnet(content))
    elif kind == "MindSpore":
        arrays = named(other_formats.mindspore(content))
    else:
        arrays = named(other_formats.numpy_leaves(content, tuple(layouts[0].parts)))
    return Checkpoint(kind, arrays)


def _of_flax(kind: str, contents: other_formats.Contents) -> Checkpoint:
    """The arrays of the model, without the state of its optimizer."""
    kept = [each for each in contents if not other_formats.is_of_training(each[0])]
    return Checkpoint(kind, named(kept), optimizer=len(contents) - len(kept))


def _tensorflow_js(path: Path) -> Checkpoint:
    """A model of TensorFlow.js, whose layers have Keras's layouts. Its hard_sigmoid is Keras 2's.

    A Sequential of Keras 3 has its own name before those of its layers.
    """
    contents, config = other_formats.tensorflow_js(path)
    if config is not None:
        check_model(config)
        settings = config.get("config")
        if isinstance(settings, dict) and settings.get("name"):
            model = f"{settings['name']}/"
            contents = [(name.removeprefix(model), values) for name, values in contents]
    arrays = named(contents)
    return Checkpoint(
        "TensorFlow.js",
        arrays,
        config=config,
        attributes={"keras_version": "2.15.0"},  # whose functions it has
    )


def _with_items(kind: str, items: Sequence[Item]) -> Checkpoint:
    """A model of a format that describes its recurrent layers, with the other arrays."""
    arrays: list[Array] = []
    for item in items:
        if isinstance(item, Cell):
            arrays += item.sources
        else:
            arrays.append(item)
    return Checkpoint(kind, arrays, items=items)
