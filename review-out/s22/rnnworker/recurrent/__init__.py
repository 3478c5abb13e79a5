"""The recurrent layers of models, by the implementation that a run's config names: a module of
``rnnworker.kernels``, or a user-supplied file that fulfils the contract in ``docs/own_kernel.md``.
"""

import importlib
import itertools
import types

from rnnworker import canonical_weights
from rnnworker.options import IMPLEMENTATIONS, honoured, is_keras, is_user_file, not_honoured
from rnnworker.recurrent import cells, composed, own_file


def implementation(name):
    """The module, or an object with its functions, that ``rnn.implementation`` names. It may have
    its own ``to_canonical`` and ``from_canonical`` in place of those of `cells`."""
    if is_user_file(name):
        return own_file.Implementation(name)
    if name not in IMPLEMENTATIONS:
        known = ", ".join(IMPLEMENTATIONS)
        raise ValueError("rnn.implementation {!r} must be one of {}".format(name, known))
    if is_keras(name):
        keras = importlib.import_module("rnnworker.kernels.keras")
        return types.SimpleNamespace(make=keras.MAKE[name])
    return importlib.import_module("rnnworker.kernels." + name)


class Recurrent:
    """Makes the recurrent layers of a model: ``recurrent(units, **options)``, or
    ``recurrent.bidirectional(units, **options)`` for both directions side by side, or
    ``recurrent.stack(units, layers, bidirectional, **options)`` for several layers as one.

    `layers` lists the layers made so far, whose weights can be read and set in canonical form.
    With ``certifying`` in the config the layers have no dropout.
    """

    def __init__(self, keras, config):
        self._keras = keras
        self.cell = config["cell"]["name"]
        self._rnn = config["rnn"]
        self._without_dropout = bool(config.get("certifying"))
        self.module = implementation(self._rnn["implementation"])
        ignored = not_honoured(config)
        if ignored:
            message = "rnn.implementation {} does not honour rnn.options.{}: it honours {}"
            known = ", ".join(honoured(config)) or "no options"
            raise ValueError(message.format(self._rnn["implementation"], ignored[0], known))
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
            arguments = (self._keras, self.cell, units, layers, directions, options)
            layer = self.module.make_stack(*arguments)
        elif layers == 1:
            layer = self._single(units, bidirectional, options)
        else:
            name = options.pop("name", None)
            settings = [dict(options, return_sequences=True)] * (layers - 1) + [options]
            inner = [self._single(units, bidirectional, each) for each in settings]
            layer = composed.stack(self._keras, inner, name)
        self.layers.append(layer)
        return layer

    def to_canonical(self, layer, values=None):
        """The canonical arrays of a layer in `layers`: its weights, or in their place `values`, the
        gradients of its trainable weights in their order."""
        parts = composed.parts_of(layer)
        if not parts:
            return getattr(self.module, "to_canonical", cells.to_canonical)(layer, values)
        converted, rest = [], iter(values or ())
        for part in parts.values():
            count = len(part.trainable_weights)
            its_values = None if values is None else list(itertools.islice(rest, count))
            converted.append(self.to_canonical(part, its_values))
        return canonical_weights.join(parts, converted)

    def from_canonical(self, layer, arrays):
        parts = composed.parts_of(layer)
        if not parts:
            getattr(self.module, "from_canonical", cells.from_canonical)(layer, arrays)
            return
        of_parts = canonical_weights.split(arrays)
        for prefix, part in parts.items():
            self.from_canonical(part, of_parts[prefix])

    def _single(self, units, bidirectional, options):
        options = self._options(options)
        if not bidirectional:
            return self.module.make(self._keras, self.cell, units, options)
        name = options.pop("name", None)
        forward, backward = (
            self.module.make(self._keras, self.cell, units, dict(options, **direction))
            for direction in ({}, {"go_backwards": True})
        )
        return composed.both_directions(self._keras, forward, backward, name)

    def _options(self, options):
        defaults = {"return_sequences": False, "dropout": 0.0, "recurrent_dropout": 0.0}
        options = dict(defaults, **dict(self._rnn.get("options") or {}, **options))
        if isinstance(self.module, own_file.Implementation):
            own_file.check_dropout(self._rnn, options)
        if self._without_dropout:
            options.update(dropout=0.0, recurrent_dropout=0.0)
        return options
