"""One module per RNN implementation, each with ``make``, ``to_canonical`` and ``from_canonical``,
and with ``gradients_to_canonical`` if gradients are arranged differently from weights. Kernels in
user-supplied files fulfil the same contract, which is in ``docs/own_kernel.md``.
"""

import importlib

from rnnworker.options import HONOURED, honoured, is_user_file, not_honoured
from rnnworker.recurrent import both_directions, own_file

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
    ``recurrent.bidirectional(units, **options)`` for both directions side by side.

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
        layer = self._make(units, options)
        self.layers.append(layer)
        return layer

    def bidirectional(self, units, **options):
        name = options.pop("name", None)
        forward = self._make(units, options)
        backward = self._make(units, dict(options, go_backwards=True))
        layer = both_directions.make(self._keras, forward, backward, name)
        self.layers.append(layer)
        return layer

    @property
    def cell(self):
        return self._cell

    def to_canonical(self, layer):
        """The canonical arrays of a layer in `layers`."""
        convert = self.module.to_canonical
        if not hasattr(layer, "forward_layer"):
            return convert(layer)
        return both_directions.join(convert(layer.forward_layer), convert(layer.backward_layer))

    def from_canonical(self, layer, arrays):
        if not hasattr(layer, "forward_layer"):
            self.module.from_canonical(layer, arrays)
            return
        forward, backward = both_directions.split(arrays)
        self.module.from_canonical(layer.forward_layer, forward)
        self.module.from_canonical(layer.backward_layer, backward)

    def gradients_to_canonical(self, layer, values):
        """The gradients of the layer's trainable weights, in their order, as canonical arrays."""
        convert = getattr(self.module, "gradients_to_canonical", self.module.to_canonical)
        if not hasattr(layer, "forward_layer"):
            return convert(layer, values)
        half = len(values) // 2  # the forward layer's come first
        return both_directions.join(
            convert(layer.forward_layer, values[:half]),
            convert(layer.backward_layer, values[half:]),
        )

    def _make(self, units, options):
        options = dict(self._rnn.get("options") or {}, **options)
        options.setdefault("return_sequences", False)
        options.setdefault("dropout", 0.0)
        options.setdefault("recurrent_dropout", 0.0)
        if isinstance(self.module, own_file.Implementation):
            own_file.check_dropout(self._rnn, options)
        if self._without_dropout:
            options.update(dropout=0.0, recurrent_dropout=0.0)
        return self.module.make(self._keras, self._cell, units, options)
