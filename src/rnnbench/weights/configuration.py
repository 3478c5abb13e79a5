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
# Of Keras 2.13 to 2.15 → of Keras 3.
MODULES = {
    "keras.src.engine.functional": "keras.src.models.functional",
    "keras.src.engine.sequential": "keras.src.models.sequential",
}


class Node(NamedTuple):
    """`layer`: class name and config; `place`: its group in the weights of a ``.keras`` file;
    `names`: of the layers from the top."""

    layer: dict[str, Any]
    place: str
    names: tuple[str, ...]

    @property
    def kind(self) -> str:
        return str(self.layer.get("class_name"))

    @property
    def arrays(self) -> str:
        """The group with the arrays of this recurrent layer or cell."""
        return f"{self.place}/cell" if self.kind in RNN else self.place


def nodes(
    layer: dict[str, Any], container: str = "layers", place: str = "", names: tuple[str, ...] = ()
) -> Iterator[Node]:
    """The layers of a model's configuration, each before those in it."""
    yield Node(layer, place.strip("/"), names)
    config = layer.get("config")
    children = config if isinstance(config, list) else (config or {}).get("layers", [])
    for child, key in zip(children, _numbered(children), strict=True):
        name = child.get("config", {}).get("name") or child.get("name", key)
        yield from nodes(child, container, f"{place}/{container}/{key}", (*names, name))
    if not isinstance(config, dict):
        return
    inner, cell = config.get("layer"), config.get("cell")
    if isinstance(inner, dict) and layer["class_name"] == "Bidirectional":
        backward = config.get("backward_layer") or inner
        yield from nodes(inner, container, f"{place}/forward_layer", (*names, "forward"))
        yield from nodes(backward, container, f"{place}/backward_layer", (*names, "backward"))
    elif isinstance(inner, dict):
        name = inner.get("config", {}).get("name", "layer")
        yield from nodes(inner, container, f"{place}/layer", (*names, name))
    if isinstance(cell, dict):
        yield from nodes(cell, container, f"{place}/cell", names)
    cells = config.get("cells", [])
    for child, key in zip(cells, _numbered(cells), strict=True):
        yield from nodes(child, container, f"{place}/cells/{key}", (*names, key))


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
        kind = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", re.sub(r"\W+", "", layer["class_name"]))
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


def why_not_cudnn(cell: Cell, stated: str | None) -> str | None:
    """Why CuDNN's layers do not compute what the cell does, or None. `stated`: the recurrent
    activation that the user names, for files without a configuration."""
    settings, bias = cell.settings, cell.arrays.get("bias")
    if cell.layout == "cudnn":
        return None
    if cell.kind == "SimpleRNN":
        return "Keras has no CuDNN layer for SimpleRNN"
    before = settings is not None and not reset_after(settings)
    if cell.kind == "GRU" and (before or (bias is not None and bias.ndim == 1)):
        return "it applies the reset gate before the product (reset_after=False)"
    if cell.kind == "GRU" and bias is None and settings is None:
        return "it has no bias, and the file does not say that it has reset_after=True"
    activation: str | None = "tanh"
    for name in ("dropout", "recurrent_dropout", "time_major"):
        if settings is not None and settings.get(name):
            return f"it has {name}={settings[name]}"
    if settings is not None:
        activation, stated = settings.get("activation"), settings.get("recurrent_activation")
    elif cell.layout in ("torch", "buffer"):
        stated = "sigmoid"
    if stated is None:
        return "its activations are not in the file (hard_sigmoid was Keras's default before TF 2)"
    if (activation, stated) != ("tanh", "sigmoid"):
        return f"it has activation={activation}, recurrent_activation={stated}"
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
        if config.pop("time_major", False):
            remedy = "save it with time_major=False."
            raise Refusal(f"layer {config['name']} has time_major=True, not in Keras 3.", remedy)
        if layout == "keras" and node.kind in CUDNN:
            layer["class_name"] = kind
            config.update(FIXED, **({"reset_after": True} if kind == "GRU" else {}))
        if layout == "cudnn" and node.kind in RNN[:2]:
            layer["class_name"] = f"CuDNN{kind}"
            for name in (*FIXED, "reset_after", "zero_output_for_mask", "seed"):
                config.pop(name, None)


def _make_readable(layer: dict[str, Any]) -> None:
    if layer.get("module") in MODULES:
        layer["module"] = MODULES[layer["module"]]
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
    for name in ("layer", "backward_layer", "cell"):
        if isinstance(config.get(name), dict):
            config[name].setdefault("module", "keras.layers")
    for name, value in config.items():
        if name.endswith("_initializer") and isinstance(value, dict):
            value["config"].pop("dtype", None)  # of TensorFlow 1


def described(
    model: dict[str, Any], container: str, items: Sequence[Item], by_place: bool
) -> list[Item]:
    """The items, with the settings that a model's configuration has for its cells. Raises `Refusal`
    if the two disagree."""
    tree = [node for node in nodes(model, container) if is_recurrent(node)]
    cells = [item for item in items if isinstance(item, Cell)]
    found: dict[int, Node] = {}
    for layer in dict.fromkeys(cell.layer for cell in cells):
        own = [cell for cell in cells if cell.layer == layer]
        of_layer = [node for node in tree if node.names[:1] == (layer,)]
        for number, cell in enumerate(own):
            place = cell.sources[0].place.rpartition("/vars/")[0]
            if by_place:
                same = [node for node in tree if node.arrays == place]
            else:
                same = [
                    node for node in of_layer if _ends(node.names) == _ends(cell.scope.split("/"))
                ]
                if len(same) != 1 and len(of_layer) == len(own):
                    same = [of_layer[number]]
            if len(same) == 1:
                found[id(cell)] = same[0]
                check_agreement(cell, same[0])
    known = {node.layer["config"].get("name") for node in found.values()}
    for node in tree:
        if node.layer["config"].get("name") not in known:
            what = f"layer {'/'.join(node.names)} is a {node.kind} in the configuration, but its "
            raise Refusal(f"{what}arrays are not in the file.")
    settled: list[Item] = []
    for item in items:
        if isinstance(item, Cell) and id(item) in found:
            item = replace(item, settings=found[id(item)].layer["config"])
        settled.append(item)
    return settled


def _ends(names: Sequence[str]) -> tuple[str, ...]:
    """The last name, that of the layer, with the direction."""
    return tuple(names[-2:] if names[-1] in DIRECTIONS else names[-1:])
