"""Canonical weights: a framework-independent set of arrays that every implementation loads.

A model's weighted layers are listed in order. The arrays of a recurrent layer are ``kernel``
(inputs × gates·units), ``recurrent`` (units × gates·units) and ``bias``, with Keras's order of
gates: i, f, c, o for LSTM and z, r, h for GRU. In a bidirectional layer each name begins with
``forward_`` or ``backward_``, and in a stack of layers with ``layer0_``, ``layer1_``, …
(``layer1_forward_kernel``). The arrays of every other layer are those of Keras, in its order.

The initial values follow Keras's defaults (Glorot & Bengio 2010, uniform; orthogonal recurrent
kernels after Saxe et al. 2013; forget-gate bias 1 after Jozefowicz et al. 2015). Each array is
drawn from its own seeded NumPy stream, so that no framework's generator is involved. Orthogonal
kernels come from a QR decomposition as in Keras, those of more than `MOST_BY_QR` units from a
random rotation, because the decomposition takes 100 CPU seconds at 4096 units.
"""

import hashlib
import re
import zlib

import numpy

DIRECTIONS = ("forward_", "backward_")
PREFIX = re.compile(r"layer\d+_|forward_|backward_")
MOST_BY_QR = 512  # units; the decomposition of an LSTM's kernel takes a second
ROTATED_ROWS = 64  # at a time, to bound memory
GATES = {"lstm": 4, "gru": 3, "gru_reset_before": 3, "rnn_tanh": 1, "rnn_relu": 1}


def initial(layers, seed):
    """Returns the initial arrays of `layers`: a list of {array name: float32 array}, one per
    layer. A layer is a dict with ``name``, ``kind`` (``recurrent``, ``embedding`` or ``other``),
    ``cell`` (recurrent only) and ``shapes``, a list of (array name, shape)."""
    return [
        {
            name: _array(layer, name, tuple(shape), stream(seed, index, name))
            for name, shape in layer["shapes"]
        }
        for index, layer in enumerate(layers)
    ]


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
    return {
        prefix + name: array
        for prefix, arrays in zip(prefixes, parts)
        for name, array in arrays.items()
    }


def split(arrays):
    """The reverse of `join`: {prefix: canonical arrays} of the layers of a stack, or of the
    directions of a layer, in order; empty for a single layer in one direction."""
    parts = {}
    for name, array in arrays.items():
        match = PREFIX.match(name)
        if match:
            parts.setdefault(match.group(), {})[name[match.end() :]] = array
    # Forward before backward, layer2 before layer10.
    return {prefix: parts[prefix] for prefix in sorted(parts, key=lambda each: (len(each), each))}


def stream(*seeds):
    """Returns a ``numpy.random.RandomState`` that depends on the texts of `seeds`."""
    return numpy.random.RandomState(zlib.crc32("/".join(map(str, seeds)).encode("utf-8")))


def _array(layer, name, shape, stream):
    if layer["kind"] == "embedding":
        return stream.uniform(-0.05, 0.05, shape).astype("float32")
    part = name.split("_")[-1] if layer["kind"] == "recurrent" else None
    if part == "recurrent":
        return _orthogonal(shape, stream)
    if part == "bias":
        bias = numpy.zeros(shape, "float32")
        if layer["cell"] == "lstm":
            units = shape[-1] // GATES["lstm"]
            bias[..., units : 2 * units] = 1.0
        return bias
    if name in ("gamma", "moving_variance"):
        return numpy.ones(shape, "float32")
    if len(shape) < 2:
        return numpy.zeros(shape, "float32")
    return _glorot_uniform(shape, stream)


def _glorot_uniform(shape, stream):
    field = int(numpy.prod(shape[:-2])) if len(shape) > 2 else 1
    limit = numpy.sqrt(6.0 / (shape[-2] * field + shape[-1] * field))
    return stream.uniform(-limit, limit, shape).astype("float32")


def _orthogonal(shape, stream):
    rows, columns = shape
    few, many = min(shape), max(shape)
    if few > MOST_BY_QR:
        q = _rotated(few, many, stream)
        return q if rows <= columns else q.T
    q, r = numpy.linalg.qr(stream.normal(size=(many, few)))
    q = q * numpy.sign(numpy.diag(r))
    return (q if rows >= columns else q.T).astype("float32")


def _rotated(rows, columns, stream):
    """Returns `rows` orthonormal rows: unit vectors after three rotations, each of which changes
    the signs at random and takes Hartley's transform, which is orthogonal, by FFT (Ailon & Chazelle
    2009, with more rotations). Every value is nearly normal with variance 1 / columns."""
    signs = stream.choice((-1.0, 1.0), size=(3, columns))
    result = numpy.empty((rows, columns), "float32")
    for first in range(0, rows, ROTATED_ROWS):
        vectors = numpy.eye(min(ROTATED_ROWS, rows - first), columns, first)
        for sign in signs:
            spectrum = numpy.fft.fft(vectors * sign)
            vectors = (spectrum.real - spectrum.imag) / numpy.sqrt(columns)
        result[first : first + ROTATED_ROWS] = vectors
    return result
