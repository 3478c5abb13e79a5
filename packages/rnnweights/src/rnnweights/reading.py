"""Checkpoint files → their arrays, with names that are unique and the model's configuration.

The content of a file decides how it is read, not its name:

- HDF5 of Keras 2 and 3 (``.h5``, ``.weights.h5``) and ``.keras``: `keras_files`;
- ``.npz`` and safetensors: here;
- ONNX: `onnx_files`;
- flax, equinox, MXNet, MindSpore and TensorFlow.js: `other_formats`;
- files of torch and TensorFlow: by their own libraries in a build.

Nothing that is read can run code: pickles are refused.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import safetensors

from rnnweights import keras_files, other_formats
from rnnweights.cells import DIRECTIONS, Array, Cell, Refusal
from rnnweights.checkpoint import Checkpoint, check_claim, named
from rnnweights.frameworks import Worker
from rnnweights.kinds import OTHER_FORMATS, kind_of
from rnnweights.layer_tree import check_model
from rnnweights.layouts import Layout
from rnnweights.onnx_files import read_onnx

# The types of safetensors that NumPy has, and what torch calls others.
NUMPYS = ("BOOL", "U8", "I8", "U16", "I16", "U32", "I32", "U64", "I64", "F16", "F32", "F64", "C64")
OF_TORCH = {"BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2"}


def read(path: Path, worker: Worker, layouts: Sequence[Layout] = ()) -> Checkpoint:
    """The checkpoint in a file.

    `path`: the file, the prefix of TensorFlow's files or the folder of a SavedModel;
    `layouts`: those that the user states, of a file that does not say what its arrays are;
    `worker`: asks a build, which has TensorFlow or torch. Raises `Refusal` if it is no checkpoint,
    is damaged or has links to other files.
    """
    kind = kind_of(path)
    if kind in ("TensorFlow", "torch"):
        return _by_library(path, kind, worker)

    is_other = any(not layout.is_kerass for layout in layouts)
    try:
        if kind in OTHER_FORMATS or (kind == ".h5" and is_other):
            checkpoint = _of_another(path, kind, layouts)
        elif kind == "safetensors":
            checkpoint = _safetensors(path)
        elif kind == ".npz":
            checkpoint = _npz(path)
        elif kind == "ONNX":
            checkpoint = _onnx(path)
        elif kind == ".keras":
            checkpoint = keras_files.read_archive(path.read_bytes())
        else:
            checkpoint = keras_files.read_hdf5(path.read_bytes())
    except Refusal:
        raise
    except Exception as error:  # h5py, NumPy, zipfile and safetensors raise many types
        reason = f"{type(error).__name__}: {error}"
        if kind in (".npz", "safetensors"):
            raise Refusal(
                f"it is damaged, or not all of its arrays are numbers that NumPy has ({reason}).",
                "use the complete file, and save its arrays as float32.",
            ) from error
        if kind == "ONNX" or kind in OTHER_FORMATS:
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


def _by_library(path: Path, kind: str, worker: Worker) -> Checkpoint:
    """A checkpoint that TensorFlow or torch reads in a build."""
    try:
        answer, values = worker(kind.lower(), path=str(path.absolute()))
    except Refusal as error:
        raise Refusal(f"it is a file of {kind}, and {error.what}", error.remedy) from error

    contents = []
    for number, name in enumerate(answer["names"]):
        pair = name, values[str(number)]
        contents.append(pair)
    arrays = named(contents)
    if kind == "TensorFlow":
        # The layer of a variable is its scope.
        for index, array in enumerate(arrays):
            layer, _, last = array.scope.rpartition("/")
            if last not in DIRECTIONS:
                layer = array.scope
            arrays[index] = array._replace(layer=layer)
    return Checkpoint(
        kind,
        arrays,
        order=answer["order"],
        optimizer=answer["optimizer"],
    )


def _npz(path: Path) -> Checkpoint:
    """An ``.npz`` file, whose comment has the order of its arrays if rnnweights wrote it."""
    with np.load(path, allow_pickle=False) as contents:
        archive = contents.zip
        claimed = sum(member.file_size for member in archive.infolist())
        # What an array's header claims takes no memory: NumPy reads an array piece by piece.
        check_claim(claimed, path.stat().st_size)
        arrays = named(contents.items())

    try:
        about = json.loads(archive.comment)
    except ValueError:  # the comment of another program
        about = {}
    if not isinstance(about, dict):
        about = {}

    texts = {key: str(value) for key, value in about.items()}
    order = texts.pop("order", "none")
    return Checkpoint(
        ".npz",
        arrays,
        order=order,
        attributes=texts,
        is_own="order" in about,
    )


def _of_another(path: Path, kind: str, layouts: Sequence[Layout]) -> Checkpoint:
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
    content = path.read_bytes()
    if kind == ".h5":
        with keras_files.opened(content) as file:
            arrays = named(other_formats.hdf5(file))
    elif kind == "flax (msgpack)":
        arrays = named(other_formats.msgpack(content))
    elif kind == "MXNet":
        arrays = named(other_formats.mxnet(content))
    elif kind == "MindSpore":
        arrays = named(other_formats.mindspore(content))
    else:
        arrays = named(other_formats.numpy_leaves(content, tuple(layouts[0].parts)))
    return Checkpoint(kind, arrays)


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


def _onnx(path: Path) -> Checkpoint:
    """A model of ONNX: its recurrent nodes and the other arrays."""
    items = read_onnx(path.read_bytes())
    arrays: list[Array] = []
    for item in items:
        if isinstance(item, Cell):
            arrays += item.sources
        else:
            arrays.append(item)
    return Checkpoint("ONNX", arrays, items=items)


def _names_in(text: str | None) -> list[str] | None:
    """The names in a JSON list; None for what another program wrote."""
    try:
        names = json.loads(text or "")
    except ValueError:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return None
    return names


def _safetensors(path: Path) -> Checkpoint:
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
        contents = []
        for name in names:
            kind = file.get_slice(name).get_dtype()
            if kind not in NUMPYS:
                raise Refusal(
                    f"{name} has the type {OF_TORCH.get(kind, kind)}, which NumPy lacks.",
                    "save it as float32.",
                )
            contents.append((name, file.get_tensor(name)))

    is_own = "order" in about
    order = about.pop("order", "none")
    return Checkpoint(
        "safetensors",
        named(contents),
        order=order,
        attributes=about,
        is_own=is_own,
    )
