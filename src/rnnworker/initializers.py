"""Keras's random initializers in NumPy, so that a model starts from the same weights in every
build.

Source: Keras 3, ``keras/src/initializers/random_initializers.py``. Orthogonal matrices come from a
QR decomposition as in Keras, those of more than `MOST_BY_QR` rows from a random rotation: from 64
units on, BLAS decomposes in threads, which wait for each other for 0.2 to 0.5 s while other workers
start. At 4096 units the decomposition takes 100 CPU seconds.
"""

import collections
import contextlib
import functools
import inspect
import zlib
from unittest import mock

import numpy

# Initializer → what it states as VarianceScaling.
SCALINGS = {
    "GlorotUniform": {"scale": 1.0, "mode": "fan_avg", "distribution": "uniform"},
    "GlorotNormal": {"scale": 1.0, "mode": "fan_avg", "distribution": "truncated_normal"},
    "HeUniform": {"scale": 2.0, "mode": "fan_in", "distribution": "uniform"},
    "HeNormal": {"scale": 2.0, "mode": "fan_in", "distribution": "truncated_normal"},
    "LecunUniform": {"scale": 1.0, "mode": "fan_in", "distribution": "uniform"},
    "LecunNormal": {"scale": 1.0, "mode": "fan_in", "distribution": "truncated_normal"},
}
# Standard deviation of a normal distribution cut off at two standard deviations.
TRUNCATED = 0.87962566103423978
MOST_BY_QR = 32  # rows
ROTATED_ROWS = 64  # at a time, to bound memory


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


# Class of an initializer of Keras → a function of (shape, stream, its settings).
DRAWN = {
    "RandomUniform": _uniform,
    "RandomNormal": _normal,
    "TruncatedNormal": _truncated_normal,
    "VarianceScaling": _scaled,
    "Orthogonal": _orthogonal,
    "OrthogonalInitializer": _orthogonal,
}
DRAWN.update(dict.fromkeys(SCALINGS, _scaled))


def drawn(kind, shape, stream, settings):
    """The values that Keras's initializer of the class `kind` with these `settings` would draw from
    the `stream`, as float32."""
    stated = dict(settings, **SCALINGS.get(kind, {}))
    return DRAWN[kind](shape, stream, stated).astype("float32")


def stream(*seeds: object) -> numpy.random.RandomState:
    """Returns a stream that depends on the texts of `seeds`."""
    text = "/".join(map(str, seeds))
    return numpy.random.RandomState(zlib.crc32(text.encode("utf-8")))


class Draws:
    """The draws of Keras's initializers while a model is built. The values depend on the `seed`, on
    the class of the layer that makes the weight, and on the number of earlier draws for that class;
    not on the framework, and not on the kernel that a layer gets. An initializer with a seed of its
    own, or of another class, draws what it always does.

    `as_tensor`: the function of (draw, shape, dtype) that returns the array of ``draw()`` as a
    tensor."""

    def __init__(self, keras, seed, as_tensor):
        self._keras = keras
        self._seed = seed
        self._as_tensor = as_tensor
        self._layer = None  # the class of the layer that makes a weight
        self._numbers = collections.Counter()

    @contextlib.contextmanager
    def by_numpy(self):
        """In the block, Keras's initializers draw with NumPy."""
        layer_class = self._keras.layers.Layer
        patches = [(layer_class, "add_weight", self._named(layer_class.add_weight))]
        for owner in self._owners():
            patches.append((owner, "__call__", self._drawing(owner.__call__)))
        with contextlib.ExitStack() as stack:
            for owner, name, function in patches:
                stack.enter_context(mock.patch.object(owner, name, function))
            yield

    def _owners(self):
        """The classes with the methods that draw."""
        owners = set()
        for name in DRAWN:
            initializer = getattr(self._keras.initializers, name, None)
            for each in getattr(initializer, "__mro__", ()):
                if "__call__" in vars(each):
                    owners.add(each)
                    break
        return owners

    def _named(self, add_weight):
        """The method `add_weight`, whose initializer knows the class of the layer."""
        place = list(inspect.signature(add_weight).parameters).index("initializer") - 1

        @functools.wraps(add_weight)
        def named(layer, *arguments, **settings):
            positional = list(arguments)
            if len(positional) > place:
                positional[place] = self._for_layer(layer, positional[place])
            elif "initializer" in settings:
                settings["initializer"] = self._for_layer(layer, settings["initializer"])
            return add_weight(layer, *positional, **settings)

        return named

    def _for_layer(self, layer, stated):
        """The `stated` initializer with the class of `layer`. Keras 3 may call it later."""
        if stated is None:
            return None
        initializer = self._keras.initializers.get(stated)
        if isinstance(initializer, type):
            initializer = initializer()  # TensorFlow 1 has a class of a name
        if not callable(initializer):
            return initializer
        # Keras 2.0.6 has no cells.
        name = type(layer).__name__.replace("Cell", "")

        def draw(*arguments, **settings):
            self._layer = name
            try:
                return initializer(*arguments, **settings)
            finally:
                self._layer = None

        return draw

    def _drawing(self, original):
        @functools.wraps(original)
        def drawing(initializer, shape, dtype=None, **settings):
            stated = initializer.get_config()
            kind = type(initializer).__name__
            if kind not in DRAWN or stated.get("seed") is not None:
                return original(initializer, shape, dtype, **settings)
            layer = self._layer
            number = self._numbers[layer]
            self._numbers[layer] += 1
            sizes = tuple(int(size) for size in shape)

            def draw():
                return drawn(kind, sizes, stream(self._seed, layer, number), stated)

            return self._as_tensor(draw, sizes, dtype or "float32")

        return drawing
