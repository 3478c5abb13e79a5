"""The layers in a model's configuration: where Keras keeps their arrays in a ``.keras`` file, their
settings, and the classes and settings that match a layout."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from rnnbench.weights.cells import DIRECTIONS, Cell, Item, Refusal

RNN = ("LSTM", "GRU", "SimpleRNN")
CUDNN = ("CuDNNLSTM", "CuDNNGRU")
CELLS = (*CUDNN, "LSTMCell", "GRUCell", "SimpleRNNCell")
CONTAINERS = ("layers", "_layer_checkpoint_dependencies")
# What a CuDNN layer computes, as settings of Keras's own layers, which the class does not have.
FIXED = {
    "activation": "tanh",
    "recurrent_activation": "sigmoid",
    "use_bias": True,
    "dropout": 0.0,
    "recurrent_dropout": 0.0,
    "implementation": 2,
    "unroll": False,
}
# Of Keras 2.13 to 2.15 → class, which Keras 3 also finds in the module ``keras``.
MODULES = {
    "keras.src.engine.functional": "Model",
    "keras.src.engine.sequential": "Sequential",
}


class Node(NamedTuple):
    """`layer`: class name and config; `place`: its group in the weights of a ``.keras`` file;
    `names`: of the layers from the top; `trainable`: with all layers that contain it."""

    layer: dict[str, Any]
    place: str
    names: tuple[str, ...]
    trainable: bool = True

    @property
    def kind(self) -> str:
        return str(self.layer.get("class_name"))

    @property
    def arrays(self) -> str:
        """The group with the arrays of this recurrent layer or cell."""
        return f"{self.place}/cell" if self.kind in RNN else self.place


def nodes(
    layer: dict[str, Any],
    container: str = "layers",
    place: str = "",
    names: tuple[str, ...] = (),
    trainable: bool = True,
) -> Iterator[Node]:
    """The layers of a model's configuration, each before those in it."""
    config = layer.get("config")
    if isinstance(config, dict):
        trainable = trainable and config.get("trainable", True)
    yield Node(layer, place.strip("/"), names, trainable)
    for child, inside, below in _children(layer, container):
        yield from nodes(child, container, f"{place}/{inside}", (*names, *below), trainable)


def _children(
    layer: dict[str, Any], container: str
) -> Iterator[tuple[dict[str, Any], str, tuple[str, ...]]]:
    """The layers in a layer, each with its place below it and its further names."""
    config = layer.get("config")
    layers = config if isinstance(config, list) else (config or {}).get("layers", [])
    for child, key in zip(layers, _numbered(layers), strict=True):
        yield child, f"{container}/{key}", (_name(child, key),)
    if not isinstance(config, dict):
        return
    inner, cell = config.get("layer"), config.get("cell")
    if isinstance(inner, dict) and layer["class_name"] == "Bidirectional":
        yield inner, "forward_layer", ("forward",)
        yield config.get("backward_layer") or inner, "backward_layer", ("backward",)
    elif isinstance(inner, dict):
        yield inner, "layer", (_name(inner, "layer"),)
    if isinstance(cell, dict):
        yield cell, "cell", ()
    cells = config.get("cells", [])
    for child, key in zip(cells, _numbered(cells), strict=True):
        yield child, f"cells/{key}", (_name(child, key),)


def _name(layer: dict[str, Any], otherwise: str) -> str:
    config = layer.get("config")
    own = config.get("name") if isinstance(config, dict) else None  # early Keras 2 has a list
    return str(own or layer.get("name") or otherwise)


def check_model(model: Any) -> None:
    """Raises `Refusal` unless each layer of a model's configuration has a class and settings."""
    try:
        layers = [node.layer for node in nodes(model)]
        complete = [isinstance(layer["config"], dict | list) for layer in layers]
    except (AttributeError, KeyError, TypeError):
        complete = [False]
    if not all(complete):
        remedy = "use a file that Keras wrote."
        raise Refusal("its configuration does not describe the layers of a model.", remedy)


def _numbered(layers: Sequence[Mapping[str, Any]]) -> list[str]:
    """The keys under which Keras saves a list of layers: classes in snake case, numbered."""
    counts: Counter[str] = Counter()
    keys = []
    for layer in layers:
        # A Model that has layers in its configuration is made a Functional.
        name = re.sub(r"\W+", "", re.sub("^Model$", "Functional", layer["class_name"]))
        kind = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
        kind = re.sub("([a-z])([A-Z])", r"\1_\2", kind).lower()
        keys.append(f"{kind}_{counts[kind]}" if counts[kind] else kind)
        counts[kind] += 1
    return keys


def is_recurrent(node: Node) -> bool:
    return node.kind in (*RNN, *CELLS)


def check_agreement(cell: Cell, node: Node) -> None:
    """Raises `Refusal` unless the configuration describes this cell."""
    settings = node.layer["config"]
    layout = "cudnn" if node.kind in CUDNN else "keras"
    kind = node.kind.removeprefix("CuDNN").removesuffix("Cell")
    bias = settings.get("use_bias", True)
    said = (kind, layout, settings.get("units", settings.get("output_dim")), bias)
    found = (cell.kind, cell.layout, cell.units, "bias" in cell.arrays)
    if said != found:
        texts = [f"{k} of {u} units, layout {x}, use_bias={b}" for k, x, u, b in (said, found)]
        what = f"the configuration says {texts[0]}; the arrays are those of {texts[1]}."
        raise Refusal(f"layer {cell.scope}: {what}")
    after = "bias" in cell.arrays and cell.arrays["bias"].ndim == 2
    if cell.kind == "GRU" and layout == "keras" and bias and after != reset_after(settings):
        raise Refusal(f"layer {cell.scope}: the configuration says reset_after={not after}, the "
                      f"bias has the shape {cell.arrays['bias'].shape}.")  # fmt: skip


def reset_after(settings: Mapping[str, Any]) -> bool:
    """Early versions of Keras 2 have no such setting, and do not reset after."""
    return bool(settings.get("reset_after", False))


def resets_after(cell: Cell) -> bool:
    """Whether a GRU applies the reset gate after the product, as those of cuDNN and torch do."""
    if cell.layout != "keras":
        return True
    if cell.settings is not None and "reset_after" in cell.settings:
        return bool(cell.settings["reset_after"])
    return "bias" in cell.arrays and cell.arrays["bias"].ndim == 2


def check_fits_cudnn(cell: Cell, stated: str | None) -> None:
    """Raises `Refusal` if CuDNN's layers do not compute what the cell does. `stated`: the recurrent
    activation that the user names, for files without a configuration."""
    remedy = "convert with --to keras or --to canonical."
    why = _why_not_cudnn(cell)
    if why is None and cell.layout == "keras":
        settings = cell.settings or {"activation": "tanh", "recurrent_activation": stated}
        names = tuple(settings.get(name) for name in ("activation", "recurrent_activation"))
        if names[1] is None:
            why = "its activations are not in the file (hard_sigmoid was Keras's default before "
            why += "TF 2)"
            remedy = "state --recurrent-activation sigmoid, or convert with --to keras."
        elif names != ("tanh", "sigmoid"):
            why = f"it has activation={names[0]}, recurrent_activation={names[1]}"
    if why is not None:
        raise Refusal(f"layer {cell.scope}: CuDNN layers cannot hold it: {why}.", remedy)


def _why_not_cudnn(cell: Cell) -> str | None:
    """Why its structure does not fit, or None."""
    settings, bias = cell.settings, cell.arrays.get("bias")
    if cell.kind == "SimpleRNN":
        return "Keras has no CuDNN layer for SimpleRNN"
    if cell.layout != "keras":
        return None
    of_rnn = (cell.layer_class or "").endswith("Cell")
    if of_rnn or re.search(r"(^|/)(cells|stacked_rnn_cells(_\d+)?)/", cell.sources[0].place):
        return "it is a cell of an RNN layer, and there are no CuDNN cells"
    if cell.kind == "GRU" and not resets_after(cell):
        if settings is None and bias is None:
            return "it has no bias, and the file does not say that it has reset_after=True"
        return "it applies the reset gate before the product (reset_after=False)"
    for name in ("dropout", "recurrent_dropout", "time_major"):
        if settings is not None and settings.get(name):
            return f"it has {name}={settings[name]}"
    return None


def convert_classes(model: dict[str, Any], layout: str | None) -> None:
    """Changes the classes and settings of a model's recurrent layers to those of `layout` (None: as
    they are), and what Keras 3 cannot read of Keras 2."""
    for node in list(nodes(model)):
        layer, kind = node.layer, node.kind.removeprefix("CuDNN")
        _make_readable(layer)
        if not is_recurrent(node):
            continue
        config = layer["config"]
        if layout is None and node.kind in CUDNN:
            layer.update(module=None, registered_name=node.kind)  # a class of `rnnworker.check`
        if layout == "keras" and node.kind in CUDNN:
            layer["class_name"] = kind
            config.update(FIXED, **({"reset_after": True} if kind == "GRU" else {}))
        if layout == "cudnn" and node.kind in RNN[:2]:
            layer["class_name"] = f"CuDNN{kind}"
            for name in (*FIXED, "reset_after", "zero_output_for_mask", "seed"):
                config.pop(name, None)


def _make_readable(layer: dict[str, Any]) -> None:
    if layer.get("module") in MODULES:
        layer.update(module="keras", class_name=MODULES[layer["module"]], registered_name=None)
    config = layer.get("config")
    inner = config if isinstance(config, list) else (config or {}).get("layers", [])
    if layer["class_name"] == "Sequential" and inner:
        shape = inner[0]["config"].get("batch_input_shape")
        if shape and inner[0]["class_name"] != "InputLayer":
            dtype = inner[0]["config"].get("dtype", "float32")
            settings = {
                "batch_input_shape": shape,
                "dtype": dtype,
                "name": "input",
                "sparse": False,
            }
            inner.insert(0, {"class_name": "InputLayer", "config": settings})
    if not isinstance(config, dict):
        return
    if layer["class_name"] != "InputLayer":
        config.pop("batch_input_shape", None)
    if config.pop("time_major", False):
        remedy = "save it with time_major=False."
        raise Refusal(f"layer {config['name']} has time_major=True, not in Keras 3.", remedy)
    axis = config.get("axis")
    if layer["class_name"] == "BatchNormalization" and isinstance(axis, list):
        config["axis"] = axis[0]
    for name in ("layer", "backward_layer", "cell"):
        if isinstance(config.get(name), dict):
            config[name].setdefault("module", "keras.layers")
    for name, value in config.items():
        if name.endswith("_initializer") and isinstance(value, dict):
            value["config"].pop("dtype", None)  # of TensorFlow 1


def described(
    model: dict[str, Any], container: str, items: Sequence[Item], by_place: bool
) -> list[Item]:
    """The items, with what a model's configuration says about its cells. Raises `Refusal` if the
    two disagree."""
    tree = [node for node in nodes(model, container) if is_recurrent(node)]
    cells = [item for item in items if isinstance(item, Cell)]
    found: dict[int, Node] = {}
    for layer in dict.fromkeys(cell.layer for cell in cells):
        own = [cell for cell in cells if cell.layer == layer]
        of_layer = [node for node in tree if node.names[:1] == (layer,)]
        found |= _by_place(own, tree) if by_place else _by_name(own, of_layer)
    for cell in cells:
        if id(cell) in found:
            check_agreement(cell, found[id(cell)])
    known = {node.layer["config"].get("name") for node in found.values()}
    for node in tree:
        if node.layer["config"].get("name") not in known:
            what = f"layer {'/'.join(node.names)} is a {node.kind} in the configuration, but its "
            raise Refusal(f"{what}arrays are not in the file.")
    settled: list[Item] = []
    for item in items:
        if isinstance(item, Cell) and id(item) in found:
            node = found[id(item)]
            item = replace(item, settings=node.layer["config"], layer_class=node.kind)
        settled.append(item)
    return settled


def _by_place(cells: Sequence[Cell], tree: Sequence[Node]) -> dict[int, Node]:
    """The nodes of cells by their ids, in a ``.keras`` file."""
    found = {}
    for cell in cells:
        place = cell.sources[0].place.rpartition("/vars/")[0]
        same = [node for node in tree if node.arrays == place]
        if len(same) == 1:
            found[id(cell)] = same[0]
    return found


def _by_name(cells: Sequence[Cell], tree: Sequence[Node]) -> dict[int, Node]:
    """The nodes of the cells of one layer by their ids, in an ``.h5`` file: by their names, or else
    by their order, in which those that are not trained come last."""
    found = {}
    for cell in cells:
        names = cell.scope.split("/")
        same = [node for node in tree if _ends(node.names) == _ends(names)]
        if len(same) > 1:
            same = [node for node in same if set(node.names) <= set(names)]
        if len(same) == 1:
            found[id(cell)] = same[0]
    several = len({node.names for node in found.values()}) < len(found)
    if several or len(found) < len(cells):
        found = {} if several else found
        if len(tree) == len(cells):
            ordered = sorted(tree, key=lambda node: not node.trainable)
            found = {id(cell): node for cell, node in zip(cells, ordered, strict=True)}
    return found


def _ends(names: Sequence[str]) -> tuple[str, ...]:
    """The last name, that of the layer, with the direction."""
    return tuple(names[-2:] if names[-1] in DIRECTIONS else names[-1:])
