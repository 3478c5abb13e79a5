"""Checkpoint files → their arrays, with names that are unique and the model's configuration.

HDF5 of Keras 2 and 3, ``.keras`` and ``.weights.h5``, ``.npz`` and safetensors are read here; files
of torch and TensorFlow by their own libraries in a build. The content decides, not the name.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import safetensors

from rnnbench.errors import BuildError
from rnnbench.weights.cells import DIRECTIONS, PARTS, Array, Refusal
from rnnbench.weights.layer_tree import CONTAINERS, Node, check_model, is_recurrent, nodes
from rnnworker.recurrent.checkpoint_layouts import cell_of

# What a file holds at most in memory: times its size, and bytes besides.
INFLATION, SMALL = 100, 2**20
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
STATE = ("/optimizer/", "/metrics/")  # of training, in files of Keras 3 and 2.13
CELL = re.compile(r"(lstm|gru|simple_rnn)_cell(_\d+)?")
Worker = Callable[..., Any]  # `rnnbench.running.in_build.ask`


@dataclass(frozen=True)
class Checkpoint:
    """`kind`: how the arrays are stored; `order`: whether the file has that of the ``layers``, also
    of the ``arrays`` in a layer, or ``none``; `optimizer`: the number of arrays of the optimizer
    and the metrics, which are not among `arrays`; `attributes`: the versions of Keras and its
    backend."""

    kind: str
    arrays: Sequence[Array]
    content: bytes = b""
    config: dict[str, Any] | None = None
    order: str = "none"
    optimizer: int = 0
    attributes: Mapping[str, str] = field(default_factory=dict)

    @property
    def container(self) -> str:
        """The group that has the layers of a model in a file of Keras 3, or of Keras 2.13."""
        return CONTAINERS[any(CONTAINERS[1] in array.place for array in self.arrays)]


def read(path: Path, worker: Worker) -> Checkpoint:
    """The checkpoint at `path`, the prefix of TensorFlow's files or a folder of a SavedModel.
    Raises `Refusal` if it is none, or has links to other files."""
    kind = kind_of(path)
    if kind in ("TensorFlow", "torch"):
        try:
            answer, arrays = worker(kind.lower(), path=str(path.absolute()))
        except BuildError as error:
            what = f"it is a file of {kind}, and {error.where} {error.what}"
            raise Refusal(what, error.remedy) from error
        named = [
            (name, _values(name, arrays[str(number)]))
            for number, name in enumerate(answer["names"])
        ]
        found = _named(named)
        if kind == "TensorFlow":
            found = [_of_scope(array) for array in found]
        return Checkpoint(kind, found, b"", None, answer["order"], answer["optimizer"])
    try:
        checkpoint = _of_file(path.read_bytes(), kind, path)
    except Refusal:
        raise
    except Exception as error:  # h5py, NumPy, zipfile and safetensors raise many types
        what = f"it is damaged or not of Keras ({type(error).__name__}: {error})."
        raise Refusal(what, "use a file that Keras wrote.") from error
    if not checkpoint.arrays:
        raise Refusal("it has no arrays of layers.", "use a checkpoint of a model with weights.")
    return checkpoint


def _of_file(content: bytes, kind: str, path: Path) -> Checkpoint:
    if kind == "safetensors":
        return _safetensors(content, path)
    if kind == ".npz":
        return _npz(content)
    if kind == ".keras":
        return _archive(content)
    with opened(content) as file:
        legacy = "model_weights" in file or "layer_names" in file.attrs
        legacy = legacy or "layer_names0" in file.attrs
        return _legacy(file, content) if legacy else _keras_3(file, content, None)


def kind_of(path: Path) -> str:
    """The kind of file, from its content. Raises `Refusal` for a kind that is not read."""
    folder = path.is_dir() and (
        (path / "saved_model.pb").exists() or (path / "checkpoint").exists()
    )
    if folder or path.with_name(f"{path.name}.index").is_file() or path.suffix == ".index":
        return "TensorFlow"
    if not path.is_file():
        what = "it is not a file." if path.exists() else "it does not exist."
        raise Refusal(what, "name a file, the prefix of a TensorFlow checkpoint, or a SavedModel.")
    with path.open("rb") as file:
        head = file.read(64)
    if not head:
        raise Refusal("it is empty.", "use the complete file.")
    if h5py.is_hdf5(path):
        return ".h5"
    if head.startswith(b"PK"):
        names = _members(path)
        if {"config.json", "model.weights.h5"} <= set(names):
            return ".keras"
        if any(name.endswith("constants.pkl") for name in names):
            raise Refusal("it is a TorchScript program.", "torch.save(model.state_dict(), FILE).")
        if any(name.endswith("data.pkl") for name in names):
            return "torch"
        if names and all(name.endswith(".npy") for name in names):
            return ".npz"
        raise Refusal(f"it is a ZIP archive with {', '.join(names[:3]) or 'nothing'}.", SAVEZ)
    if head[8:9] == b"{" and int.from_bytes(head[:8], "little") < path.stat().st_size:
        return "safetensors"
    if path.name == "saved_model.pb":
        raise Refusal("it is the graph of a SavedModel, without arrays.", "name its folder.")
    if path.suffix == ".onnx" or (head[:1] == b"\x08" and head[2:3] == b"\x12"):
        raise Refusal("it is an ONNX file.", f"read it with the package onnx and {SAVEZ}")
    for place, start, name in OTHERS:
        if head[place:].startswith(start):
            raise Refusal(f"it is {name}.", SAVEZ)
    raise Refusal(f"its format is unknown; it begins with {head[:8]!r}.", SAVEZ)


def _members(path: Path) -> list[str]:
    """The names in a ZIP archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    except zipfile.BadZipFile as error:
        what = f"it is a damaged or incomplete ZIP archive ({error})."
        raise Refusal(what, "use the complete file.") from error


def check_claim(claimed: int, size: int) -> None:
    """Raises `Refusal` if a file of `size` bytes `claimed` to hold much more."""
    if claimed > INFLATION * size + SMALL:
        what = f"its arrays should have {claimed:,} bytes, but the file has only {size:,}."
        raise Refusal(what, "use the complete file.")


@contextmanager
def opened(content: bytes) -> Iterator[h5py.File]:
    """An HDF5 file without links to other files, which reading would follow, and without claims
    that its size contradicts."""
    with h5py.File(io.BytesIO(content)) as file:
        claimed = 0

        def check(name: str, link: object) -> None:
            nonlocal claimed
            if isinstance(link, h5py.ExternalLink):
                raise Refusal(f"{name} is a link to another file.", "save the model in one file.")
            found = file[name] if isinstance(link, h5py.HardLink) else None
            if isinstance(found, h5py.Dataset):
                claimed += found.size * found.dtype.itemsize
                if found.external or found.is_virtual:
                    what = f"the bytes of {name} are in another file."
                    raise Refusal(what, "save the model in one file.")

        file.visititems_links(check)
        check_claim(claimed, len(content))
        yield file


def _values(name: str, values: Any) -> np.ndarray:
    is_array = isinstance(values, h5py.Dataset | np.ndarray)
    if not is_array or values.dtype.kind not in "biufc":
        type_ = f" (type {values.dtype})" if is_array else ""
        raise Refusal(f"{name} is not an array of numbers{type_}.", "save it as float32.")
    return np.asarray(values)


def texts(group: h5py.Group, name: str) -> list[str]:
    """An attribute with names, which Keras divides into several if it is long."""
    found = [group.attrs[name]] if name in group.attrs else []
    while f"{name}{len(found)}" in group.attrs:
        found.append(group.attrs[f"{name}{len(found)}"])
    return [text_of(text) for part in found for text in part]


def text_of(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _legacy(file: h5py.File, content: bytes) -> Checkpoint:
    root = "model_weights/" if "model_weights" in file else ""
    weights = file[root or "/"]
    arrays: list[Array] = []
    top = [name for name in ("top_level_model_weights",) if name in weights]
    for layer in dict.fromkeys([*texts(weights, "layer_names"), *top]):
        own = []
        for key in texts(weights[layer], "weight_names"):
            _, found, after = f"/{key}".partition(f"/{layer}/")
            name = re.sub(r":\d+$", "", f"{layer}/{after if found else key}")
            values = _values(name, weights[layer][key])
            own.append(Array(name, key, values, layer))
        arrays += _tidy(own)
    if any(re.search(r"_[WU](_[a-z])?$", array.name) for array in arrays):
        what = f"it is a file of Keras 1 (with arrays such as {arrays[0].name})."
        raise Refusal(what, "load and save the model once with Keras 2.0 to 2.2.")
    places = {f"/{root}{array.layer}/{array.place}" for array in arrays}
    optimizer = [name for name in _datasets(file) if name.startswith("/optimizer_weights")]
    if lost := set(_datasets(file)) - places - set(optimizer):
        raise Refusal(f"no layer names its array {min(lost)}.", "use a file that Keras wrote.")
    names = ("keras_version", "backend")
    attributes = {name: text_of(weights.attrs[name]) for name in names if name in weights.attrs}
    config = file.attrs.get("model_config")
    config = None if config is None else json.loads(text_of(config))
    if config is not None:
        check_model(config)
    return Checkpoint(".h5", arrays, content, config, "arrays", len(optimizer), attributes)


def _tidy(arrays: Sequence[Array]) -> list[Array]:
    """The arrays of a layer named without ``lstm_cell``, and with ``forward`` and ``backward`` for
    directions, unless two of them would have one name."""
    tidied = []
    for array in arrays:
        first, *scopes, part = [*array.name.split("/")] if "/" in array.name else ["", array.name]
        kept = []
        for number, scope in enumerate(scopes):
            if not (number == len(scopes) - 1 and CELL.fullmatch(scope)):
                kept.append(re.sub(r"^(forward|backward)_.*", r"\1", scope))
        tidied.append(array._replace(name="/".join([first, *kept, part]).lstrip("/")))
    if len({array.name for array in tidied}) == len(arrays):
        return tidied
    names = {array.name for array in arrays}
    if len(names) == len(arrays):
        return list(arrays)
    return [array._replace(name=f"{array.layer}/{array.place}") for array in arrays]


def _datasets(file: h5py.File) -> list[str]:
    found: list[str] = []
    file.visititems(lambda name, item: found.append(item.name) if _is_dataset(item) else None)
    return found


def _is_dataset(item: object) -> bool:
    return isinstance(item, h5py.Dataset)


def _archive(content: bytes) -> Checkpoint:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        check_claim(sum(entry.file_size for entry in archive.infolist()), len(content))
        config = json.loads(archive.read("config.json"))
        named = "metadata.json" in archive.namelist()
        metadata = json.loads(archive.read("metadata.json")) if named else {}
        weights = archive.read("model.weights.h5")
    check_model(config)
    with opened(weights) as file:
        read = _keras_3(file, content, config)
    versions = {"keras_version": str(metadata.get("keras_version"))}
    return replace(read, kind=".keras", content=content, config=config, attributes=versions)


def _keras_3(file: h5py.File, content: bytes, config: dict[str, Any] | None) -> Checkpoint:
    container = CONTAINERS[CONTAINERS[1] in file]
    tree = list(nodes(config, container)) if config else []
    groups: dict[str, list[str]] = {}
    optimizer = 0
    for name in _datasets(file):
        if name.startswith(STATE):
            optimizer += 1
        else:
            group, _, key = name.strip("/").rpartition("/")
            groups.setdefault(group, []).append(key)
    if not any("vars" in group for group in groups):
        raise Refusal("it is an HDF5 file, but not a checkpoint of Keras.", SAVEZ)
    arrays: list[Array] = []
    for group in sorted(groups, key=lambda group: (_deepest(group, tree)[0], natural(group))):
        _, node = _deepest(group, tree)
        keys = sorted(groups[group], key=natural)
        values = [_values(group, file[group][key]) for key in keys]
        parts = PARTS if _is_cell(group, keys, values, node) else [f"var_{key}" for key in keys]
        scope = _scope(group, node)
        for part, key, each in zip(parts, keys, values, strict=False):
            layer = scope.partition("/")[0]
            arrays.append(Array(f"{scope}/{part}", f"{group}/{key}", each, layer))
    if len({array.name for array in arrays}) < len(arrays):
        arrays = [array._replace(name=array.place) for array in arrays]
    order = "layers" if len(tree) > 1 else "none"
    return Checkpoint(".weights.h5", arrays, content, None, order, optimizer)


def _deepest(group: str, tree: Sequence[Node]) -> tuple[int, Node | None]:
    """The number and the node of the layer that has the arrays in `group`."""
    best, found = 0, None
    for number, node in enumerate(tree):
        inside = f"{group}/".startswith(f"{node.place}/" if node.place else "")
        if inside and (found is None or len(node.place) > len(found.place)):
            best, found = number, node
    return best, found


def _is_cell(
    group: str, keys: Sequence[str], values: Sequence[np.ndarray], node: Node | None
) -> bool:
    """Whether the arrays are those of a recurrent cell: the configuration says it, the name does,
    or all shapes are those of a CuDNN layer."""
    owner = group.removesuffix("/vars").split("/")
    if list(keys) not in (["0", "1"], ["0", "1", "2"]):
        return False
    if node is not None and is_recurrent(node):
        return "/".join(owner) == node.arrays
    if owner[-1] == "cell" or "cells" in owner[-2:-1] or owner[-1].startswith("cu_dnn"):
        return True
    if owner[-1] in ("forward_layer", "backward_layer"):
        return True
    shapes = [each.shape for each in values]
    columns = shapes[1][-1:] * 2
    fit = cell_of(values[1]) in ("lstm", "gru") and shapes[0][1:] == columns[1:]
    return len(keys) == 3 and fit and shapes[2] == (sum(columns),)


def _scope(group: str, node: Node | None) -> str:
    """The name of the layer with the arrays in `group`, from the configuration where it has one."""
    known = node.place if node else ""
    rest = group.removeprefix(known).strip("/").split("/")
    names = list(node.names) if node else []
    for part in rest:
        if part not in (*CONTAINERS, "vars", "cell", ""):
            names.append(part.removesuffix("_layer") if part[:-6] in DIRECTIONS else part)
    return "/".join(names) or "model"


def natural(text: str) -> list[tuple[str, int, str]]:
    """Sorts ``lstm_2`` before ``lstm_10``, and ``forward`` before ``backward``."""
    parts = re.split(r"(\d+)", text.replace("/backward", "/gackward"))
    return [("", int(part), "") if part.isdigit() else (part, 0, "") for part in parts]


def _of_scope(array: Array) -> Array:
    """A variable of TensorFlow, whose layer is its scope."""
    scope = array.scope
    layer = scope.rpartition("/")[0] if scope.rpartition("/")[2] in DIRECTIONS else scope
    return array._replace(layer=layer)


def _npz(content: bytes) -> Checkpoint:
    named = []
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        infos = archive.infolist()
        check_claim(sum(info.file_size for info in infos), len(content))
        for info in infos:
            with archive.open(info) as file:
                header = {(1, 0): np.lib.format.read_array_header_1_0,
                          (2, 0): np.lib.format.read_array_header_2_0}  # fmt: skip
                shape, _, dtype = header[np.lib.format.read_magic(file)](file)
                if dtype.kind not in "OSU":
                    check_claim(int(np.prod(shape)) * dtype.itemsize, info.file_size)
        about = _about(archive.comment)
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        for name in arrays.files:
            named.append((name, _values(name, arrays[name])))
    return Checkpoint(".npz", _named(named), content, None, about.pop("order", "none"), 0,
                      about)  # fmt: skip


def _about(comment: bytes) -> dict[str, Any]:
    """What rnnbench wrote about the arrays. Other programs write other comments."""
    try:
        about = json.loads(comment)
    except ValueError:
        return {}
    return about if isinstance(about, dict) else {}


def _safetensors(content: bytes, path: Path) -> Checkpoint:
    with safetensors.safe_open(path, framework="numpy") as file:
        about = dict(file.metadata() or {})
        names = json.loads(about.pop("names", "null")) or list(file.keys())
        named = [(name, _values(name, file.get_tensor(name))) for name in names]
        if set(names) != set(file.keys()):
            raise Refusal("its header names other arrays than it has.", "use a complete file.")
    order = about.pop("order", "none")
    return Checkpoint("safetensors", _named(named), content, None, order, 0, about)


def _named(named: Sequence[tuple[str, np.ndarray]]) -> list[Array]:
    """Arrays that have names alone, as Keras or torch gives them: the first part is the layer."""
    arrays = []
    for place, values in named:
        name = re.sub(r":\d+$", "", place)
        name = f"rnn/{name}" if name in PARTS else name
        layer = name.partition("/")[0] if "/" in name else ""
        arrays.append(Array(name, place, values, layer))
    return _tidy(arrays)
