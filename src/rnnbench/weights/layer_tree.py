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

from rnnbench.weights.cells import Refusal

RNN = ("LSTM", "GRU", "SimpleRNN")
CUDNN = ("CuDNNLSTM", "CuDNNGRU")
CELLS = (*CUDNN, "LSTMCell", "GRUCell", "SimpleRNNCell")
# The group of a model's layers in a file of Keras 3, and of Keras 2.13.
CONTAINERS = ("layers", "_layer_checkpoint_dependencies")


class Node(NamedTuple):
    """A layer of a model's configuration.

    `layer`: its class name and config;
    `place`: its group in the weights of a ``.keras`` file;
    `names`: those of the layers that contain it, from the top, and its own;
    `trainable`: whether it and all layers that contain it are.
    """

    layer: dict[str, Any]
    place: str
    names: tuple[str, ...]
    trainable: bool = True

    @property
    def kind(self) -> str:
        """The name of its class."""
        return str(self.layer.get("class_name"))

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
) -> Iterator[Node]:
    """Yields the layers of a model's configuration, each before those in it, the model first.

    `layer`: the configuration;
    `container`: one of `CONTAINERS`. The other arguments are those of the model's own node.
    """
    config = layer.get("config")
    if isinstance(config, dict):
        trainable = trainable and config.get("trainable", True)
    yield Node(
        layer,
        place.strip("/"),
        names,
        trainable,
    )

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
    """Whether it is a recurrent layer or the cell of one."""
    return node.kind in RNN or node.kind in CELLS
