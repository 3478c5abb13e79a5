"""Canonical weights: a framework-independent set of arrays that every implementation loads.

A model's weighted layers are listed in order. The arrays of a recurrent layer are ``kernel``
(inputs × gates·units), ``recurrent`` (units × gates·units) and ``bias``, with Keras's order of
gates: i, f, c, o for LSTM and z, r, h for GRU. In a bidirectional layer each name begins with
``forward_`` or ``backward_``, and in a stack of layers with ``layer0_``, ``layer1_``, …
(``layer1_forward_kernel``). The arrays of every other layer are those of Keras, in its order.

The initial values are drawn by the initializers that the layers of the model state
(`initializers`), each array from its own seeded NumPy stream, so that no framework's generator is
involved. Values that the model itself has set, or that an initializer with a seed of its own or of
the user's own making draws, stay. The defaults of Keras's recurrent layers are Glorot & Bengio 2010
(uniform) for matrices, orthogonal recurrent kernels after Saxe et al. 2013, and a forget-gate bias
of 1 after Jozefowicz et al. 2015.
"""

import hashlib
import re
import zlib

import numpy

from rnnworker import initializers

DIRECTIONS = ("forward_", "backward_")
PREFIX = re.compile(r"layer\d+_|forward_|backward_")
GATES = {
    "lstm": 4,
    "gru": 3,
    "gru_reset_before": 3,
    "rnn_tanh": 1,
    "rnn_relu": 1,
}
RECURRENT_DEFAULTS = {"kernel": "glorot_uniform", "recurrent": "orthogonal", "bias": "zeros"}


def initial(layers, seed):
    """Returns the initial arrays of `layers`: a list of {array name: float32 array}, one per
    layer. A layer is a dict with ``name``, ``kind`` (``recurrent`` or ``other``), ``cell``
    (recurrent only), ``shapes``, a list of (array name, shape), ``initializers``, {array name:
    (class name, settings)}, and ``kept``, {array name: its values}, which stay."""
    weights = []
    for index, layer in enumerate(layers):
        kept = layer.get("kept", {})
        arrays = {}
        for name, shape in layer["shapes"]:
            if name in kept:
                arrays[name] = kept[name]
            else:
                own = stream(seed, index, name)
                arrays[name] = _array(layer, name, tuple(shape), own)
        weights.append(arrays)
    return weights


def origin(layers):
    """Returns which arrays of `layers` the seed draws and which stay as the model set them:
    ``{"drawn": [LAYER/ARRAY, …], "kept": […]}``."""
    found = {"drawn": [], "kept": []}
    for layer in layers:
        for name, _ in layer["shapes"]:
            initializer = layer["initializers"].get(_part(layer, name))
            is_constant = initializer is not None and initializer[0] == "Constant"
            how = "kept" if is_constant or name in layer["kept"] else "drawn"
            found[how].append("{}/{}".format(layer["name"], name))
    return found


def is_drawn(initializer):
    """Whether `initializer`, (class name, settings), is one that `initial` draws."""
    name, settings = initializer
    return name in initializers.DRAWN and settings.get("seed") is None


def digest(weights):
    """Returns the SHA-256 over names, shapes and values of all arrays."""
    state = hashlib.sha256()
    for arrays in weights:
        for name in sorted(arrays):
            array = numpy.ascontiguousarray(arrays[name], dtype="<f4")
            state.update("{} {}".format(name, array.shape).encode("utf-8"))
            state.update(array.tobytes())
    return state.hexdigest()


def layer_prefixes(count):
    return ["layer{}_".format(number) for number in range(count)]


def join(prefixes, parts):
    """Returns the canonical arrays of a layer that consists of several; `parts`: those of each."""
    joined = {}
    for prefix, arrays in zip(prefixes, parts):
        for name in arrays:
            joined[prefix + name] = arrays[name]
    return joined


def split(arrays):
    """The reverse of `join`: {prefix: canonical arrays} of the layers of a stack, or of the
    directions of a layer, in order; empty for a single layer in one direction."""
    parts = {}
    for name in arrays:
        match = PREFIX.match(name)
        if match:
            part = parts.setdefault(match.group(), {})
            part[name[match.end() :]] = arrays[name]
    # Forward before backward, layer2 before layer10.
    prefixes = sorted(parts, key=lambda prefix: (len(prefix), prefix))
    return {prefix: parts[prefix] for prefix in prefixes}


def stream(*seeds):
    """Returns a ``numpy.random.RandomState`` that depends on the texts of `seeds`."""
    text = "/".join(map(str, seeds))
    return numpy.random.RandomState(zlib.crc32(text.encode("utf-8")))


def _part(layer, name):
    """The name of an array without its direction and its place in a stack."""
    if layer["kind"] != "recurrent":
        return name
    return name.split("_")[-1]


def _array(layer, name, shape, stream):
    part = _part(layer, name)
    initializer, settings = layer["initializers"][part]
    array = initializers.DRAWN[initializer](shape, stream, settings)
    if part == "bias" and layer.get("unit_forget_bias"):
        units = shape[-1] // GATES["lstm"]
        array[..., units : 2 * units] = 1.0
    return array.astype("float32")
