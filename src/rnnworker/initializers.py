"""Keras's initializers in NumPy: each draws an array from a seeded stream.

Source: Keras 3, ``keras/src/initializers/random_initializers.py``. Orthogonal matrices come from a
QR decomposition as in Keras, those of more than `MOST_BY_QR` rows from a random rotation, because
the decomposition takes 100 CPU seconds at 4096 units.
"""

import numpy

# Initializer → settings of VarianceScaling: scale, mode, distribution.
SCALINGS = {
    "GlorotUniform": (1.0, "fan_avg", "uniform"),
    "GlorotNormal": (1.0, "fan_avg", "truncated_normal"),
    "HeUniform": (2.0, "fan_in", "uniform"),
    "HeNormal": (2.0, "fan_in", "truncated_normal"),
    "LecunUniform": (1.0, "fan_in", "uniform"),
    "LecunNormal": (1.0, "fan_in", "truncated_normal"),
}
# Standard deviation of a normal distribution cut off at two standard deviations.
TRUNCATED = 0.87962566103423978
MOST_BY_QR = 512  # units; the decomposition of an LSTM's kernel takes a second
ROTATED_ROWS = 64  # at a time, to bound memory


def _constant(shape, stream, settings):
    value = settings.get("value", 0.0)
    return numpy.zeros(shape) + numpy.asarray(value)


def _identity(shape, stream, settings):
    gain = settings.get("gain", 1.0)
    return gain * numpy.eye(*shape)


def _uniform(shape, stream, settings):
    low = settings.get("minval", -0.05)
    high = settings.get("maxval", 0.05)
    return stream.uniform(low, high, shape)


def _normal(shape, stream, settings):
    mean = settings.get("mean", 0.0)
    deviation = settings.get("stddev", 0.05)
    return stream.normal(mean, deviation, shape)


def _truncated_normal(shape, stream, settings):
    values = stream.normal(size=shape)
    outside = abs(values) > 2
    while outside.any():
        values[outside] = stream.normal(size=int(outside.sum()))
        outside = abs(values) > 2
    mean = settings.get("mean", 0.0)
    deviation = settings.get("stddev", 0.05)
    return mean + deviation * values


def _scaled(shape, stream, settings):
    """VarianceScaling: the variance is scale / fan."""
    inputs, outputs = fans(shape)
    by_mode = {
        "fan_in": inputs,
        "fan_out": outputs,
        "fan_avg": (inputs + outputs) / 2.0,
    }
    mode = settings.get("mode", "fan_in")
    fan = max(1.0, by_mode[mode])
    scale = settings.get("scale", 1.0)
    distribution = settings.get("distribution")
    if distribution == "uniform":
        limit = numpy.sqrt(3.0 * scale / fan)
        return stream.uniform(-limit, limit, shape)
    deviation = numpy.sqrt(scale / fan)
    if distribution == "untruncated_normal":
        return stream.normal(0.0, deviation, shape)
    cut_off = {"stddev": deviation / TRUNCATED}
    return _truncated_normal(shape, stream, cut_off)


def fans(shape):
    """(inputs, outputs) of a weight, as Keras counts them."""
    if len(shape) < 2:
        size = shape[0] if shape else 1
        return size, size
    field = int(numpy.prod(shape[:-2]))
    return shape[-2] * field, shape[-1] * field


def _orthogonal(shape, stream, settings):
    rows = int(numpy.prod(shape[:-1]))
    columns = shape[-1]
    few = min(rows, columns)
    many = max(rows, columns)
    if few > MOST_BY_QR:
        q = _rotated(few, many, stream)
        if rows > columns:
            q = q.T
    else:
        drawn = stream.normal(size=(many, few))
        q, r = numpy.linalg.qr(drawn)
        q = q * numpy.sign(numpy.diag(r))
        if rows < columns:
            q = q.T
    gain = settings.get("gain", 1.0)
    return gain * q.reshape(shape)


def _rotated(rows, columns, stream):
    """Returns `rows` orthonormal rows: unit vectors after three rotations, each of which changes
    the signs at random and takes Hartley's transform, which is orthogonal, by FFT (Ailon & Chazelle
    2009, with more rotations). Every value is nearly normal with variance 1 / columns."""
    signs = stream.choice((-1.0, 1.0), size=(3, columns))
    result = numpy.empty((rows, columns), "float32")
    for first in range(0, rows, ROTATED_ROWS):
        end = min(first + ROTATED_ROWS, rows)
        vectors = numpy.eye(end - first, columns, first)
        for sign in signs:
            spectrum = numpy.fft.fft(vectors * sign)
            vectors = (spectrum.real - spectrum.imag) / numpy.sqrt(columns)
        result[first:end] = vectors
    return result


def _scaling(name):
    scale, mode, distribution = SCALINGS[name]
    stated = {"scale": scale, "mode": mode, "distribution": distribution}
    return lambda shape, stream, settings: _scaled(shape, stream, stated)


# Class of an initializer of Keras → a function of (shape, stream, its settings).
DRAWN = {
    "Zeros": _constant,
    "Ones": lambda shape, stream, settings: numpy.ones(shape),
    "Constant": _constant,
    "RandomUniform": _uniform,
    "RandomNormal": _normal,
    "TruncatedNormal": _truncated_normal,
    "VarianceScaling": _scaled,
    "Orthogonal": _orthogonal,
    "OrthogonalInitializer": _orthogonal,
    "Identity": _identity,
    "IdentityInitializer": _identity,
}
for _name in SCALINGS:
    DRAWN[_name] = _scaling(_name)
