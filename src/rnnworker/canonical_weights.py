"""Canonical weights: a framework-independent set of arrays that every implementation loads.

A model's weighted layers are listed in order. The arrays of a recurrent layer are ``kernel``
(inputs × gates·units), ``recurrent`` (units × gates·units) and ``bias``, with Keras's order of
gates: i, f, c, o for LSTM and z, r, h for GRU. In a bidirectional layer each name begins with
``forward_`` or ``backward_``, and in a stack of layers with ``layer0_``, ``layer1_``, …
(``layer1_forward_kernel``). The arrays of every other layer are those of Keras, in its order.

A model starts from the values that its ``build`` leaves, which are equal in every build because
NumPy draws for Keras's initializers (`initializers.Draws`).
"""

import hashlib
import re
from typing import Dict, Iterable, List, Mapping

import numpy

Arrays = Dict[str, numpy.ndarray]  # of a layer, by their names
Weights = List[Arrays]  # of a model

DIRECTIONS = ("forward_", "backward_")
PREFIX = re.compile(r"layer\d+_|forward_|backward_")
GATES = {
    "lstm": 4,
    "gru": 3,
    "gru_reset_before": 3,
    "rnn_tanh": 1,
    "rnn_relu": 1,
}


def digest(weights: Iterable[Mapping[str, numpy.ndarray]]) -> str:
    """Returns the SHA-256 over names, shapes and values of all arrays."""
    state = hashlib.sha256()
    for arrays in weights:
        for name in sorted(arrays):
            array = numpy.ascontiguousarray(arrays[name], dtype="<f4")
            state.update("{} {}".format(name, array.shape).encode("utf-8"))
            state.update(array.tobytes())
    return state.hexdigest()


def layer_prefixes(count: int) -> List[str]:
    return ["layer{}_".format(number) for number in range(count)]


def join(prefixes: Iterable[str], parts: Iterable[Arrays]) -> Arrays:
    """Returns the canonical arrays of a layer that consists of several; `parts`: those of each."""
    joined = {}
    for prefix, arrays in zip(prefixes, parts):
        for name in arrays:
            joined[prefix + name] = arrays[name]
    return joined


def split(arrays: Arrays) -> Dict[str, Arrays]:
    """The reverse of `join`: {prefix: canonical arrays} of the layers of a stack, or of the
    directions of a layer, in order; empty for a single layer in one direction."""
    parts: Dict[str, Arrays] = {}
    for name in arrays:
        match = PREFIX.match(name)
        if match:
            part = parts.setdefault(match.group(), {})
            part[name[match.end() :]] = arrays[name]
    # Forward before backward, layer2 before layer10.
    prefixes = sorted(parts, key=lambda prefix: (len(prefix), prefix))
    return {prefix: parts[prefix] for prefix in prefixes}
