"""One module per RNN implementation, each with three functions:

- ``make(keras, cell, units, options)``: a layer. `options` are ``return_sequences``,
  ``dropout``, ``recurrent_dropout`` and ``name``.
- ``to_canonical(layer)``: its weights as ``{"kernel", "recurrent", "bias"}``.
- ``from_canonical(layer, arrays)``: sets them.
"""

import importlib

IMPLEMENTATIONS = ("keras", "cell", "unrolled", "block", "fake")


def implementation(name):
    """The module of the implementation that ``rnn.implementation`` names."""
    if name not in IMPLEMENTATIONS:
        known = ", ".join(IMPLEMENTATIONS)
        raise ValueError("rnn.implementation {!r} is none of {}".format(name, known))
    return importlib.import_module("rnnworker.recurrent." + name)


class Recurrent:
    """What a model calls to get a recurrent layer: ``recurrent(units, **options)``.

    Remembers the layers it made, so that their weights can be moved in canonical form.
    """

    def __init__(self, keras, config):
        self._keras = keras
        self._cell = config["cell"]["name"]
        self._rnn = config["rnn"]
        self.module = implementation(self._rnn["implementation"])
        self.layers = []

    def __call__(self, units, **options):
        options.setdefault("return_sequences", False)
        options.setdefault("dropout", 0.0)
        options.setdefault("recurrent_dropout", 0.0)
        layer = self.module.make(self._keras, self._cell, units, options)
        self.layers.append(layer)
        return layer

    @property
    def cell(self):
        return self._cell
