"""What a model's configuration says about its recurrent layers: their settings, and the classes and
settings that match a layout."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from rnnweights.cells import DIRECTIONS, Cell, Item, resets_after
from rnnweights.checkpoint import Refusal
from rnnweights.layer_tree import (
    CELLS,
    CONTAINERS,
    CUDNN,
    OF_CELL,
    OF_LAYER,
    RNN,
    UNNAMED,
    WRAPPERS,
    Node,
    is_recurrent,
    nodes,
    unknown_class,
)

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
DEFAULTS = {"activation": "tanh", "recurrent_activation": "sigmoid"}
# The layouts and frameworks whose LSTM and GRU have no argument for their activations.
FIXED_IN = (
    "cudnn",
    "buffer",
    "torch",
    "paddle",
    "mindspore",
    "equinox",
    "haiku",
    "tinygrad",
    "chainer",
    "nnabla",
    "dynet",
)
# Of Keras 2.13 to 2.15 → class, which Keras 3 also finds in the module ``keras``.
MODULES = {
    "keras.src.engine.functional": "Model",
    "keras.src.engine.sequential": "Sequential",
}

STATE_CLASS = (
    "only Keras's own cells are converted; if it computes what one of them does, state which: "
    "--layout keras.LSTM, keras.GRU or keras.SimpleRNN."
)


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


class Activation(NamedTuple):
    """The activation of a cell: the name of a function, and whether the ``file`` says it, the user
    has ``stated`` it, or it is ``assumed``."""

    name: str
    origin: str


def activations(cell: Cell, stated: Mapping[str, str | None]) -> dict[str, Activation]:
    """The activations of a cell: ``activation`` and, unless it is a SimpleRNN,
    ``recurrent_activation``.

    `stated`: what the user states of them. Raises `Refusal` if the file says otherwise.
    """
    found = {}
    for name, default in DEFAULTS.items():
        if cell.kind == "SimpleRNN" and name != "activation":
            continue
        said = _function_called((cell.settings or {}).get(name))
        if said is None and has_fixed_activations(cell):
            said = default
        given = stated.get(name)
        if said is not None and given not in (None, said):
            raise Refusal(
                f"layer {cell.scope} has the {name.replace('_', ' ')} {said}.",
                f"leave --{name.replace('_', '-')} out.",
            )
        if said is not None:
            found[name] = Activation(str(said), "file")
        elif given is not None:
            found[name] = Activation(given, "stated")
        else:
            found[name] = Activation(default, "assumed")
    return found


def _function_called(said: Any) -> Any:
    """The name of an activation in a configuration. Of one that is not Keras's, or that is a layer,
    Keras writes how to make it."""
    if not isinstance(said, dict):
        return said
    name = said.get("config")
    if not isinstance(name, str):
        name = said.get("class_name")
    return f"{name} (a function or layer of its own)"


def has_fixed_activations(cell: Cell) -> bool:
    """Whether the class of the cell has no arguments for its activations, which are then tanh and
    sigmoid. A plain RNN of any framework has one."""
    framework = cell.layout.partition(".")[0]
    return cell.kind != "SimpleRNN" and framework in FIXED_IN


def check_fits_cudnn(cell: Cell, stated: Mapping[str, str | None]) -> None:
    """Raises `Refusal` if CuDNN's layers do not compute what the cell does.

    `stated`: the activations that the user names, for files that do not.
    """
    remedy = "convert with --to keras or --to canonical."
    why = _why_not_cudnn(cell)
    if why is None:
        found = activations(cell, stated)
        names = tuple(activation.name for activation in found.values())
        if found["recurrent_activation"].origin == "assumed":
            why = (
                "its activations are not in the file (hard_sigmoid was Keras's default before TF 2)"
            )
            remedy = (
                "state --recurrent-activation sigmoid and --activation tanh, or convert with --to "
                "keras."
            )
        elif names != ("tanh", "sigmoid"):
            shown = [f"{name}={activation.name}" for name, activation in found.items()]
            why = f"it has {', '.join(shown)}"

    if why is not None:
        raise Refusal(
            f"layer {cell.scope}: CuDNN layers cannot hold it: {why}.",
            remedy,
        )


def _why_not_cudnn(cell: Cell) -> str | None:
    """Why no CuDNN layer has the structure of the cell, as part of a sentence; None if one has."""
    if cell.kind == "SimpleRNN":
        return "Keras has no CuDNN layer for SimpleRNN"
    if cell.layout in ("cudnn", "torch", "buffer"):
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
            layer["registered_name"] = kind  # a class of `in_framework`
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
    is_stated: bool = False,
) -> list[Item]:
    """The items, with what a model's configuration says about its cells.

    `model`: its configuration;
    `container`: the group of the layers in the file;
    `by_place`: whether their groups name the layers, as in a ``.keras`` file;
    `is_stated`: whether the user says that cells of unknown classes are Keras's. Raises `Refusal`
    if configuration and arrays disagree, or if a cell has a class that Keras does not have.
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
        if isinstance(item, Cell) and item.scope not in found and not is_stated:
            stranger = _stranger(item, nodes(model, container), by_place)
            if stranger:
                raise Refusal(
                    f"layer {item.scope} has the class {stranger} in the configuration, which may "
                    f"compute something else than Keras's {item.kind}.",
                    STATE_CLASS,
                )
        if isinstance(item, Cell) and item.scope in found:
            node = found[item.scope]
            check_agreement(item, node)
            scope = item.scope
            if node.names[-1:] in (("forward",), ("backward",)):
                scope = "/".join(node.names)  # an .h5 file may name the directions otherwise
            item = replace(
                item,
                scope=scope,
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


def _stranger(cell: Cell, tree: Iterable[Node], by_place: bool) -> str:
    """The class of the layer to which a cell belongs that no recurrent layer of the configuration
    describes; empty if it is an attribute of a layer or model of the user's own, whose class the
    configuration does not have.

    `tree`: the nodes of the configuration; `by_place`: as in `described`.
    """
    scope = cell.scope.removesuffix(f"/{cell.direction}")
    if by_place:
        deepest = None
        for node in tree:
            inside = f"{cell.group}/".startswith(f"{node.place}/")
            if node.place and inside:
                deepest = node
        if deepest is None or deepest.is_model:
            return ""
        for part in cell.group.removeprefix(deepest.place).split("/"):
            if part not in UNNAMED and part.removesuffix("_layer") not in DIRECTIONS:
                return ""
        return deepest.stranger

    for node in tree:
        if node.names[:1] != (cell.layer,) or node.is_model or not node.stranger:
            continue
        is_inner = re.search(r"/(cell|cells/[^/]+|layer|(for|back)ward_layer)$", node.place)
        is_called_so = node.kind in RNN or node.kind in CELLS
        has_own = "/".join(node.names) == scope
        if node.kind not in WRAPPERS and (is_inner or is_called_so or has_own):
            return node.stranger
    return ""


def check_named_class(cell: Cell, container: str, labels: Mapping[str, str]) -> None:
    """Raises `Refusal` if the names of a file without a configuration say that a cell is not one of
    Keras's, or do not say which cell an RNN layer has.

    `container`: the group of the layers in a file of Keras 3;
    `labels`: the names of layers and cells by their groups.
    """
    name = cell.scope.removesuffix(f"/{cell.direction}").rpartition("/")[2]
    named = ""
    is_other_cell = re.fullmatch(r"(.*_)?cell(_\d+)?", name) and not OF_CELL.fullmatch(name)
    has_cell = any(map(OF_CELL.fullmatch, cell.sources[0].place.split("/")))
    is_wrapper = "/" in cell.scope and re.fullmatch(r"(.*_)?wrapper(_\d+)?", name)
    if is_other_cell or (is_wrapper and not has_cell):  # such as ResidualWrapper
        named = name
    elif "/vars/" in cell.sources[0].place:
        named = unknown_class(cell.sources[0].place, container)
        is_cell_of_rnn = re.search(rf"(^|/){container}/rnn(_\d+)?/cell$", cell.group)
        if is_cell_of_rnn and cell.group not in labels:
            raise Refusal(
                f"layer {cell.scope} is an RNN layer, and the file does not say which cell it has.",
                STATE_CLASS,
            )
    if named:
        raise Refusal(
            f"layer {cell.scope} is called after the class of {named}, which may compute something "
            f"else than Keras's {cell.kind}.",
            STATE_CLASS,
        )


def is_class_named(cell: Cell, labels: Mapping[str, str]) -> bool:
    """Whether the names of a file without a configuration say the class of a cell, as far as Keras
    chose them: ``lstm_2/lstm_cell/kernel``, or the group ``lstm_2/cell`` in a file of Keras 3.

    `labels`: the names of layers and cells by their groups.
    """
    place = cell.sources[0].place
    if "/vars/" not in place:
        names = place.split("/")[:-1]
        of_cell = any(OF_CELL.fullmatch(name) for name in names)
        is_named = OF_LAYER.fullmatch(names[0]) is not None if names else False
        return is_named and (of_cell or not names[0].startswith("rnn"))

    if OF_CELL.fullmatch(cell.group.rpartition("/")[2]):
        return True
    owner = cell.group.removesuffix("/cell")
    above, _, last = owner.rpartition("/")
    label = re.sub("^(forward|backward)_", "", labels.get(owner, ""))
    if label.startswith("rnn") or last.startswith("rnn"):
        return OF_CELL.fullmatch(labels.get(cell.group, "")) is not None
    is_numbered = above.rpartition("/")[2] in CONTAINERS and OF_LAYER.fullmatch(last)
    return bool(is_numbered or OF_LAYER.fullmatch(label))


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
