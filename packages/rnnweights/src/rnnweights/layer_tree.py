"""The layers in a model's configuration, and the places of their arrays in a ``.keras`` file.

A model, ``Bidirectional``, ``TimeDistributed`` and ``RNN`` are layers that contain layers or cells.
A bidirectional GRU called ``both`` is the first layer of its class in this model::

    place                                       names
                                                                        the model
    layers/bidirectional                        both                    Bidirectional
    layers/bidirectional/forward_layer          both, forward           GRU
    layers/bidirectional/backward_layer         both, backward          GRU
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rnnweights.cells import DIRECTIONS
from rnnweights.checkpoint import Refusal

RNN = ("LSTM", "GRU", "SimpleRNN")
CUDNN = ("CuDNNLSTM", "CuDNNGRU")
CELLS = (*CUDNN, "LSTMCell", "GRUCell", "SimpleRNNCell")
# Layers that run the layer or the cells in them as these are.
WRAPPERS = ("Bidirectional", "TimeDistributed", "RNN", "StackedRNNCells")
# Modules of the classes of Keras itself.
OF_KERAS = re.compile(r"(keras|tf_keras|keras_core|tensorflow(\.python)?\.keras)(\..*)?")
# The group of a model's layers in a file of Keras 3, and of Keras 2.13.
CONTAINERS = ("layers", "_layer_checkpoint_dependencies")

# The names that Keras gives the cells of its layers.
OF_CELL = re.compile(r"(lstm|gru|simple_rnn)_cell(_\d+)?")
# Those of its layers that have one cell or one in each direction.
OF_LAYER = re.compile(r"(lstm|gru|simple_rnn|cu_dnnlstm|cu_dnngru|bidirectional|rnn)(_\d+)?")
# Of the groups of Keras's recurrent layers, after their classes.
RECURRENT_GROUPS = ("lstm", "gru", "simple_rnn", "cu_dnnlstm", "cu_dnngru", "rnn", "bidirectional")
UNNAMED = (*CONTAINERS, "vars", "cell", "")  # groups that are not in the names of layers


class Node(NamedTuple):
    """A layer of a model's configuration.

    `layer`: its class name and config;
    `place`: its group in the weights of a ``.keras`` file;
    `names`: those of the layers that contain it, from the top, and its own;
    `trainable`: whether it and all layers that contain it are;
    `wrapper`: the class of a layer that has it as its layer or its cell, and is not one of
    `WRAPPERS` of Keras; empty if there is none.
    """

    layer: dict[str, Any]
    place: str
    names: tuple[str, ...]
    trainable: bool = True
    wrapper: str = ""

    @property
    def kind(self) -> str:
        """The name of its class."""
        return str(self.layer.get("class_name"))

    @property
    def is_kerass(self) -> bool:
        """Whether its class is not of another module, as far as the configuration says it."""
        module = self.layer.get("module")
        registered = self.layer.get("registered_name")
        if module is None:  # of Keras 2, which has none; or a class that is not in Keras
            return registered is None and ">" not in self.kind
        return OF_KERAS.fullmatch(str(module)) is not None and registered in (None, self.kind)

    @property
    def stranger(self) -> str:
        """The class, of itself or of a layer around it, for which it may compute something else
        than the recurrent layer or cell of Keras that is called like it; empty if there is none."""
        if self.wrapper:
            return self.wrapper
        if (self.kind in RNN or self.kind in CELLS) and self.is_kerass:
            return ""
        return self.class_in_words

    @property
    def class_in_words(self) -> str:
        """Its class, with its module if that is not Keras."""
        module = self.layer.get("module")
        registered = self.layer.get("registered_name")
        if registered not in (None, self.kind):
            return str(registered)
        if self.is_kerass:
            return self.kind
        return f"{self.kind} of {module or 'a module that is not Keras'}"

    @property
    def is_model(self) -> bool:
        """Whether it has a list of layers."""
        config = self.layer.get("config")
        return isinstance(config, list) or bool((config or {}).get("layers"))

    @property
    def arrays(self) -> str:
        """The group with the arrays of this recurrent layer or cell."""
        if self.kind in RNN:
            return f"{self.place}/cell"
        return self.place


def nodes(
    layer: dict[str, Any],
    container: str = "layers",
    place: str = "",
    names: tuple[str, ...] = (),
    trainable: bool = True,
    wrapper: str = "",
) -> Iterator[Node]:
    """Yields the layers of a model's configuration, each before those in it, the model first.

    `layer`: the configuration;
    `container`: one of `CONTAINERS`. The other arguments are those of the model's own node.
    """
    config = layer.get("config")
    if isinstance(config, dict):
        trainable = trainable and config.get("trainable", True)
    node = Node(
        layer,
        place.strip("/"),
        names,
        trainable,
        wrapper,
    )
    yield node
    if node.is_model:
        wrapper = ""
    elif not wrapper and (node.kind not in WRAPPERS or not node.is_kerass):
        wrapper = node.class_in_words

    for child, inside, name in _children(layer, container):
        below = names
        if name:
            below += (name,)
        yield from nodes(
            child,
            container,
            f"{place}/{inside}",
            below,
            trainable,
            wrapper,
        )


def _children(layer: dict[str, Any], container: str) -> Iterator[tuple[dict[str, Any], str, str]]:
    """Yields the layers in a layer, each with its place below it and its name. A cell has no name
    of its own."""
    config = layer.get("config")
    if isinstance(config, list):  # a Sequential of early Keras 2
        yield from _numbered(config, container)
        return
    if not config:
        return

    yield from _numbered(config.get("layers", []), container)
    inner = config.get("layer")
    if isinstance(inner, dict) and layer["class_name"] == "Bidirectional":
        yield inner, "forward_layer", "forward"
        yield config.get("backward_layer") or inner, "backward_layer", "backward"
    elif isinstance(inner, dict):
        yield inner, "layer", _name(inner, "layer")

    cell = config.get("cell")
    if isinstance(cell, dict):
        yield cell, "cell", ""
    yield from _numbered(config.get("cells", []), "cells")


def _numbered(
    layers: Sequence[dict[str, Any]], container: str
) -> Iterator[tuple[dict[str, Any], str, str]]:
    """Yields layers of a list with their places and names.

    Keras saves them under their classes in snake case, numbered from the second of a class:
    ``lstm``, ``lstm_1``, ``cu_dnnlstm``. Source: keras/src/saving/saving_lib.py.
    """
    counts: Counter[str] = Counter()
    for layer in layers:
        # A Model that has layers in its configuration is made a Functional.
        name = re.sub("^Model$", "Functional", layer["class_name"])
        key = re.sub(r"\W+", "", name)
        key = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", key)
        key = re.sub("([a-z])([A-Z])", r"\1_\2", key).lower()
        counts[key] += 1
        if counts[key] > 1:
            key = f"{key}_{counts[key] - 1}"
        yield layer, f"{container}/{key}", _name(layer, key)


def _name(layer: Mapping[str, Any], otherwise: str) -> str:
    """The name that the configuration gives a layer."""
    config = layer.get("config")
    name = layer.get("name")
    if isinstance(config, dict):  # early Keras 2 has a list
        name = config.get("name") or name
    return str(name or otherwise)


def check_model(model: Any) -> None:
    """Raises `Refusal` unless each layer of a model's configuration has a class and settings.

    `model`: what the file has as its configuration, which may be anything.
    """
    try:
        configs = [node.layer["config"] for node in nodes(model)]
    except (AttributeError, KeyError, TypeError):
        configs = [None]
    if not all(isinstance(config, dict | list) for config in configs):
        raise Refusal(
            "its configuration does not describe the layers of a model.",
            "use a file that Keras wrote.",
        )


def is_recurrent(node: Node) -> bool:
    """Whether it is one of Keras's recurrent layers, or the cell of one, and computes what that
    does."""
    return not node.stranger


def unknown_class(place: str, container: str) -> str:
    """The class after which Keras 3 has named the group of a layer whose own arrays, or those of
    its cell or its directions, are at `place`; empty if it is one of Keras's recurrent layers, or
    if the group is named after an attribute.

    `container`: the group of the layers of the model.
    """
    _, found, rest = f"/{place}".rpartition(f"/{container}/")
    if not found:
        return ""
    group, _, inside = rest.partition("/")
    below = [part for part in inside.split("/")[:-1] if part not in UNNAMED]
    for part in below:
        if part.removesuffix("_layer") not in DIRECTIONS:
            return ""
    name = re.sub(r"_\d+$", "", group)
    if name in RECURRENT_GROUPS:
        return ""
    return name
