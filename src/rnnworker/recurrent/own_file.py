"""A recurrent kernel in a file of the user's own, held to the contract in ``docs/own_kernel.md``:
what breaks it is a ValueError of one line that names the file."""

import numpy

from rnnworker import user_functions
from rnnworker.canonical_weights import GATES

FUNCTIONS = ("make", "to_canonical", "from_canonical")
DROPOUTS = ("dropout", "recurrent_dropout")


class Implementation:
    """Has the functions of a module of this folder."""

    def __init__(self, path):
        self.path = path
        self._module = user_functions.from_file(path)
        for name in FUNCTIONS:
            if not callable(getattr(self._module, name, None)):
                raise self._error("has no function {}: add it".format(name))
        self._cell, self._units = None, set()

    def make(self, keras, cell, units, options):
        self._cell = cell
        self._units.add(units)
        layer = self._module.make(keras, cell, units, options)
        if not isinstance(layer, keras.layers.Layer):
            kind = type(layer).__name__
            raise self._error("make returns a {}: it has to return a Keras layer".format(kind))
        return layer

    def to_canonical(self, layer, values=None):
        return self._checked("to_canonical", self._module.to_canonical(layer, values))

    def gradients_to_canonical(self, layer, values):
        convert = getattr(self._module, "gradients_to_canonical", self._module.to_canonical)
        return self._checked(convert.__name__, convert(layer, values))

    def from_canonical(self, layer, arrays):
        self._module.from_canonical(layer, arrays)
        back = self.to_canonical(layer)
        for name in sorted(arrays):
            if not numpy.array_equal(back[name], arrays[name]):
                words = "to_canonical gives another {} than from_canonical was given: each has to "
                raise self._error((words + "undo the other").format(name))

    def _checked(self, function, arrays):
        why = wrong(self._cell, self._units, arrays)
        if why:
            raise self._error("{} {} (docs/own_kernel.md)".format(function, why))
        return arrays

    def _error(self, words):
        return ValueError("{}: {}".format(self.path, words))


def check_dropout(rnn, options):
    """Raises a ValueError where a model asks for a dropout that the choice `rnn` does not list.
    Certificates are made without dropout: they would not tell that a kernel ignores it."""
    for name in DROPOUTS:
        if options.get(name) and name not in (rnn.get("options") or {}):
            words = "{}: the model asks for {}={}; if make honours it, list it in options of rnn={}"
            given = rnn["implementation"], name, options[name], rnn.get("name")
            raise ValueError(words.format(*given))


def wrong(cell, units, arrays):
    """What is wrong with canonical `arrays` of a layer, in words, or None. `units`: of the layers
    that were made."""
    names = {"kernel", "recurrent", "bias"}
    if not isinstance(arrays, dict) or set(arrays) not in (names, names - {"bias"}):
        found = sorted(arrays) if isinstance(arrays, dict) else type(arrays).__name__
        return "gives {}, not a dict of kernel, recurrent and bias".format(found)
    shapes = {name: tuple(numpy.shape(array)) for name, array in arrays.items()}
    size = shapes["recurrent"][0] if shapes["recurrent"] else 0
    if size not in units:
        size = max(units)
    columns = GATES[cell] * size
    inputs = shapes["kernel"][0] if shapes["kernel"] else "inputs"
    wanted = {"kernel": (inputs, columns), "recurrent": (size, columns)}
    wanted["bias"] = (2, columns) if cell == "gru" else (columns,)
    for name in sorted(shapes):
        if shapes[name] != wanted[name]:
            words = "gives {} of shape {}: of cell={} with {} units it has {}"
            return words.format(name, shapes[name], cell, size, wanted[name])
    return None
