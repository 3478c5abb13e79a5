"""One module per RNN implementation, each with ``make``, ``to_canonical`` and ``from_canonical``,
and with ``gradients_to_canonical`` if gradients are arranged differently from weights, and with
``make_stack`` if it computes several layers or both directions in one op. Kernels in
user-supplied files fulfil the same contract, which is in ``docs/own_kernel.md``.
"""

import importlib

from rnnworker import canonical_weights
from rnnworker.options import HONOURED, honoured, is_user_file, not_honoured
from rnnworker.recurrent import both_directions, own_file, stacked

IMPLEMENTATIONS = tuple(HONOURED)


def implementation(name):
    """The module, or the object with the same functions, that ``rnn.implementation`` names."""
    if is_user_file(name):
        return own_file.Implementation(name)
    if name not in IMPLEMENTATIONS:
        known = ", ".join(IMPLEMENTATIONS)
        raise ValueError("rnn.implementation {!r} must be one of {}".format(name, known))
    return importlib.import_module("rnnworker.recurrent." + name)


class Recurrent:
    """Makes the recurrent layers of a model: ``recurrent(units, **options)``, or
    ``recurrent.bidirectional(units, **options)`` for both directions side by side, or
    ``recurrent.stack(units, layers, bidirectional, **options)`` for several layers as one.

    `layers` lists the layers made so far, whose weights can be read and set in canonical form.
    With ``certifying`` in the config the layers have no dropout.
    """

    def __init__(self, keras, config):
        self._keras = keras
        self._cell = config["cell"]["name"]
        self._rnn = config["rnn"]
        self._without_dropout = bool(config.get("certifying"))
        self.module = implementation(self._rnn["implementation"])
        ignored = not_honoured(config)
        if ignored:
            raise ValueError(
                "rnn.implementation {} does not honour rnn.options.{}: it honours {}".format(
                    self._rnn["implementation"],
                    ignored[0],
                    ", ".join(honoured(config)) or "no options",
                )
            )
        self.layers = []

    def __call__(self, units, **options):
        return self.stack(units, **options)

    def bidirectional(self, units, **options):
        return self.stack(units, bidirectional=True, **options)

    def stack(self, units, layers=1, bidirectional=False, **options):
        """`layers` recurrent layers, each on all outputs of the one before, as one layer. An
        implementation that has an op for a whole stack makes one layer of it."""
        if hasattr(self.module, "make_stack"):
            options, directions = self._options(options), 2 if bidirectional else 1
            arguments = (self._keras, self._cell, units, layers, directions, options)
            layer = self.module.make_stack(*arguments)
        elif layers == 1:
            layer = self._single(units, bidirectional, options)
        else:
            name = options.pop("name", None)
            settings = [dict(options, return_sequences=True)] * (layers - 1) + [options]
            inner = [self._single(units, bidirectional, each) for each in settings]
            layer = stacked.make(self._keras, inner, name)
        self.layers.append(layer)
        return layer

    @property
    def cell(self):
        return self._cell

    def to_canonical(self, layer):
        """The canonical arrays of a layer in `layers`."""
        parts = _parts(layer)
        if not parts:
            return self.module.to_canonical(layer)
        return _join(layer, [self.to_canonical(part) for part in parts])

    def from_canonical(self, layer, arrays):
        parts = _parts(layer)
        if not parts:
            self.module.from_canonical(layer, arrays)
            return
        for part, its_arrays in zip(parts, _split(layer, arrays)):
            self.from_canonical(part, its_arrays)

    def gradients_to_canonical(self, layer, values):
        """The gradients of the layer's trainable weights, in their order, as canonical arrays."""
        parts = _parts(layer)
        if not parts:
            convert = getattr(self.module, "gradients_to_canonical", self.module.to_canonical)
            return convert(layer, values)
        converted, values = [], list(values)
        for part in parts:
            count = len(part.trainable_weights)
            converted.append(self.gradients_to_canonical(part, values[:count]))
            values = values[count:]
        return _join(layer, converted)

    def _single(self, units, bidirectional, options):
        options = self._options(options)
        if not bidirectional:
            return self.module.make(self._keras, self._cell, units, options)
        name = options.pop("name", None)
        forward, backward = (
            self.module.make(self._keras, self._cell, units, dict(options, **direction))
            for direction in ({}, {"go_backwards": True})
        )
        return both_directions.make(self._keras, forward, backward, name)

    def _options(self, options):
        options = dict(self._rnn.get("options") or {}, **options)
        options.setdefault("return_sequences", False)
        options.setdefault("dropout", 0.0)
        options.setdefault("recurrent_dropout", 0.0)
        if isinstance(self.module, own_file.Implementation):
            own_file.check_dropout(self._rnn, options)
        if self._without_dropout:
            options.update(dropout=0.0, recurrent_dropout=0.0)
        return options


def inner_layers(layer):
    """The single layers that `layer`, one of a model's recurrent layers, consists of."""
    return [inner for part in _parts(layer) for inner in inner_layers(part)] or [layer]


def _parts(layer):
    """The layers of a stack, or both directions of a layer; none of any other layer."""
    if hasattr(layer, "stacked_layers"):
        return list(layer.stacked_layers)
    if hasattr(layer, "forward_layer"):
        return [layer.forward_layer, layer.backward_layer]
    return []


def _join(layer, parts):
    is_stack = hasattr(layer, "stacked_layers")
    return (canonical_weights.join_layers if is_stack else both_directions.join)(*parts)


def _split(layer, arrays):
    is_stack = hasattr(layer, "stacked_layers")
    return (canonical_weights.split_layers if is_stack else both_directions.split)(arrays)
