"""Counts the matrix products of a model's training step."""

import contextlib
from typing import Any, Iterable, List, Optional, Tuple

import numpy

from rnnworker.json_types import Json

Sizes = Tuple[Optional[int], ...]

RECURRENT = ("kernel", "recurrent")


def facts_of(session: Any, layers: Iterable[Json]) -> Json:
    """Returns two facts for the record of a built model, whose weighted `layers` are
    ``session.layers()``:

    - ``flops_per_sample``: 2·m·k·n over the products (m, k) × (k, n) with which a training step
      processes one sample, three times those of the forward pass, as usual. None if a layer is not
      counted.
    - ``timesteps``: the longest sequence of a recurrent layer; None if there is no such layer.
    """
    sized = with_sizes(session, layers)
    flops = forward_flops(sized)
    if flops is not None:
        flops *= 3
    steps = [layer["steps"] for layer in sized if layer["steps"]]
    return {"flops_per_sample": flops, "timesteps": max(steps, default=None)}


def with_sizes(session: Any, layers: Iterable[Json]) -> List[Json]:
    """Returns the weighted `layers` of a session's model, each with ``steps`` (length of a
    recurrent layer's sequences) and ``rows`` (rows of its output per sample). Sizes that are not
    fixed, or that a model without a graph does not state, are None."""
    sized = []
    for layer, described in zip(session.weighted(), layers):
        facts = dict(described, steps=None, rows=None)
        # A model of a class of its own may not say.
        with contextlib.suppress(AttributeError, KeyError, ValueError):
            inputs, outputs = session.layer_shapes(layer)
            if None not in outputs[:-1]:
                facts["rows"] = int(numpy.prod(outputs[:-1]))
            if described["kind"] == "recurrent":
                facts["steps"] = inputs[0]
        sized.append(facts)
    return sized


def forward_flops(layers: Iterable[Json]) -> Optional[int]:
    """Returns 2·m·k·n over the products of one sample's forward pass, or None if a layer has
    products that are not counted.

    A recurrent layer multiplies inputs and state at each time step, in each direction; a dense
    layer multiplies once. Embeddings and element-wise operations are not products."""
    flops = 0
    for layer in layers:
        kind = layer["kind"]
        if kind == "recurrent" and layer["steps"]:
            for name, shape in layer["shapes"]:
                if name.split("_")[-1] in RECURRENT:
                    flops += 2 * shape[0] * shape[1] * layer["steps"]
        elif kind == "dense" and layer["rows"]:
            k, n = dict(layer["shapes"])["kernel"]
            flops += 2 * layer["rows"] * k * n
        elif kind != "embedding":
            for _, shape in layer["shapes"]:
                if len(shape) > 1:
                    return None
    return flops


def sizes(shape: Iterable[Any]) -> Sizes:
    """Returns a shape as integers; TensorFlow 1 has ``Dimension`` objects instead."""
    values = []
    for size in shape:
        value = getattr(size, "value", size)
        if value is not None:
            value = int(value)
        values.append(value)
    return tuple(values)
