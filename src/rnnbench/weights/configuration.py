"""What a model's configuration says about its recurrent layers: their settings, and the classes and
settings that match a layout."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rnnbench.weights.cells import DIRECTIONS, Cell, Item, Refusal
from rnnbench.weights.layer_tree import CUDNN, Node, is_recurrent, nodes

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


def check_agreement(cell: Cell, node: Node) -> None:
    """Raises `Refusal` unless the configuration describes this cell: its class, its units, its
    layout, whether it has a bias, and where a GRU applies the reset gate."""
    settings = node.layer["config"]
    units = settings.get("units", settings.get("output_dim"))
    bias = bool(settings.get("use_bias", True))
    layout = "keras"
    if node.kind in CUDNN:
        layout = "cudnn"
    kind = node.kind.removeprefix("CuDNN").removesuffix("Cell")
    said = f"{kind} of {units} units, layout {layout}, use_bias={bias}"

    has_bias = "bias" in cell.arrays
    found = f"{cell.kind} of {cell.units} units, layout {cell.layout}, use_bias={has_bias}"
    if said != found:
        raise Refusal(
            f"layer {cell.scope}: the configuration says {said}; the arrays are those of {found}."
        )

    if kind == "GRU" and layout == "keras" and bias:
        shape = cell.arrays["bias"].shape
        after = len(shape) == 2
        # Early versions of Keras 2 have no such setting, and do not reset after.
        if after != bool(settings.get("reset_after", False)):
            raise Refusal(
                f"layer {cell.scope}: the configuration says reset_after={not after}, "
                f"the bias has the shape {shape}."
            )


def resets_after(cell: Cell) -> bool:
    """Whether a GRU applies the reset gate after the product, as those of cuDNN and torch do.

    Of a cell in Keras's layout, the configuration says it, or else the shape of the bias.
    """
    if cell.layout != "keras":
        return True
    if cell.settings is not None and "reset_after" in cell.settings:
        return bool(cell.settings["reset_after"])
    return "bias" in cell.arrays and cell.arrays["bias"].ndim == 2


def check_fits_cudnn(cell: Cell, stated: str | None) -> None:
    """Raises `Refusal` if CuDNN's layers do not compute what the cell does.

    `stated`: the recurrent activation that the user names, for files that do not.
    """
    remedy = "convert with --to keras or --to canonical."
    why = _why_not_cudnn(cell)
    if why is None and cell.layout == "keras":
        settings = cell.settings or {}
        activation = settings.get("activation", "tanh")
        recurrent = settings.get("recurrent_activation", stated)
        if recurrent is None:
            why = (
                "its activations are not in the file (hard_sigmoid was Keras's default before TF 2)"
            )
            remedy = "state --recurrent-activation sigmoid, or convert with --to keras."
        elif (activation, recurrent) != ("tanh", "sigmoid"):
            why = f"it has activation={activation}, recurrent_activation={recurrent}"

    if why is not None:
        raise Refusal(
            f"layer {cell.scope}: CuDNN layers cannot hold it: {why}.",
            remedy,
        )


def _why_not_cudnn(cell: Cell) -> str | None:
    """Why no CuDNN layer has the structure of the cell, as part of a sentence; None if one has."""
    if cell.kind == "SimpleRNN":
        return "Keras has no CuDNN layer for SimpleRNN"
    if cell.layout != "keras":
        return None

    in_rnn = re.search(r"(^|/)(cells|stacked_rnn_cells(_\d+)?)/", cell.sources[0].place)
    if in_rnn or str(cell.layer_class).endswith("Cell"):
        return "it is a cell of an RNN layer, and there are no CuDNN cells"

    if cell.kind == "GRU" and not resets_after(cell):
        if cell.settings is None and "bias" not in cell.arrays:
            return "it has no bias, and the file does not say that it has reset_after=True"
        return "it applies the reset gate before the product (reset_after=False)"
    settings = cell.settings or {}
    for name in ("dropout", "recurrent_dropout", "time_major"):
        if settings.get(name):
            return f"it has {name}={settings[name]}"
    return None


def convert_classes(model: dict[str, Any], layout: str | None) -> None:
    """Changes the classes and settings of a model's recurrent layers to those of a layout, and what
    Keras 3 cannot read of Keras 2.

    `model`: its configuration, which is changed;
    `layout`: ``cudnn``, ``keras``, or None to leave the layers as they are. Raises `Refusal` for a
    layer with a setting that Keras 3 does not have.
    """
    for node in list(nodes(model)):
        layer = node.layer
        kind = node.kind
        _make_readable(layer)
        config = layer["config"]
        if layout is None and kind in CUDNN:
            layer["module"] = None
            layer["registered_name"] = kind  # a class of `rnnworker.check`
        elif layout == "keras" and kind in CUDNN:
            layer["class_name"] = kind.removeprefix("CuDNN")
            config.update(FIXED)
            if kind == "CuDNNGRU":
                config["reset_after"] = True
        elif layout == "cudnn" and kind in ("LSTM", "GRU"):
            layer["class_name"] = f"CuDNN{kind}"
            for name in (*FIXED, "reset_after", "zero_output_for_mask", "seed"):
                config.pop(name, None)


def _make_readable(layer: dict[str, Any]) -> None:
    """Changes what Keras 3 cannot read in the configuration of a layer of Keras 2.

    Raises `Refusal` if Keras 3 has no equivalent.
    """
    module = layer.get("module")
    if module in MODULES:  # of Keras 2.13 to 2.15
        layer["module"] = "keras"
        layer["class_name"] = MODULES[module]
        layer["registered_name"] = None

    config = layer["config"]
    kind = layer["class_name"]
    layers = config
    if isinstance(config, dict):
        layers = config.get("layers")
    if kind == "Sequential" and layers and layers[0]["class_name"] != "InputLayer":
        # In Keras 2, the first layer has the shape of the input.
        first = layers[0]["config"]
        if first.get("batch_input_shape"):
            settings = {
                "batch_input_shape": first["batch_input_shape"],
                "dtype": first.get("dtype", "float32"),
                "name": "input",
                "sparse": False,
            }
            layers.insert(0, {"class_name": "InputLayer", "config": settings})

    if isinstance(config, list):
        return
    if kind != "InputLayer":
        config.pop("batch_input_shape", None)
    if config.pop("time_major", False):
        raise Refusal(
            f"layer {config['name']} has time_major=True, not in Keras 3.",
            "save it with time_major=False.",
        )

    axis = config.get("axis")
    if kind == "BatchNormalization" and isinstance(axis, list):
        config["axis"] = axis[0]
    for name in ("layer", "backward_layer", "cell"):
        if isinstance(config.get(name), dict):
            config[name].setdefault("module", "keras.layers")
    for name, value in config.items():
        if name.endswith("_initializer") and isinstance(value, dict):
            value["config"].pop("dtype", None)  # of TensorFlow 1


def described(
    model: dict[str, Any],
    container: str,
    items: Sequence[Item],
    by_place: bool,
) -> list[Item]:
    """The items, with what a model's configuration says about its cells.

    `model`: its configuration;
    `container`: the group of the layers in the file;
    `by_place`: whether their groups name the layers, as in a ``.keras`` file. Raises `Refusal` if
    configuration and arrays disagree.
    """
    tree = [node for node in nodes(model, container) if is_recurrent(node)]
    cells = [item for item in items if isinstance(item, Cell)]

    found: dict[str, Node] = {}
    if by_place:
        at = {node.arrays: node for node in tree}
        for cell in cells:
            if cell.group in at:
                found[cell.scope] = at[cell.group]
    else:
        for layer in dict.fromkeys(cell.layer for cell in cells):
            own = [cell for cell in cells if cell.layer == layer]
            below = [node for node in tree if node.names[:1] == (layer,)]
            found |= _by_name(own, below)

    settled: list[Item] = []
    for item in items:
        if isinstance(item, Cell) and item.scope in found:
            node = found[item.scope]
            check_agreement(item, node)
            item = replace(
                item,
                settings=node.layer["config"],
                layer_class=node.kind,
            )
        settled.append(item)

    known = {node.layer["config"].get("name") for node in found.values()}
    for node in tree:
        if node.layer["config"].get("name") not in known:
            name = "/".join(node.names)
            raise Refusal(
                f"layer {name} is a {node.kind} in the configuration, "
                "but its arrays are not in the file."
            )
    return settled


def _by_name(cells: Sequence[Cell], tree: Sequence[Node]) -> dict[str, Node]:
    """The nodes of the cells of one layer by their scopes, in an ``.h5`` file.

    `cells`: those of the layer in the file; `tree`: the nodes of the layer in the configuration.
    They are found by their names, or else by their order, in which those that are not trained come
    last. A cell whose node is unknown is not in the answer.
    """
    found: dict[str, Node] = {}
    for cell in cells:
        names = cell.scope.split("/")
        ends = _ends(names)
        same = [node for node in tree if _ends(node.names) == ends]
        if len(same) > 1:
            above = set(names)
            same = [node for node in same if above.issuperset(node.names)]
        if len(same) == 1:
            found[cell.scope] = same[0]

    distinct = {node.names for node in found.values()}
    if len(distinct) == len(cells):
        return found

    if len(tree) == len(cells):
        trained = [node for node in tree if node.trainable]
        frozen = [node for node in tree if not node.trainable]
        scopes = [cell.scope for cell in cells]
        return dict(zip(scopes, trained + frozen, strict=True))
    if len(distinct) < len(found):
        return {}
    return found


def _ends(names: Sequence[str]) -> tuple[str, ...]:
    """The last name, that of the layer, with the direction."""
    if names[-1] in DIRECTIONS:
        return tuple(names[-2:])
    return tuple(names[-1:])
