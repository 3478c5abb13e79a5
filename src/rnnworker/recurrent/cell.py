"""``RNN(LSTMCell(...))``: the generic loop over a cell; inputs are multiplied step by step."""

from rnnworker.options import HONOURED
from rnnworker.recurrent.cells import cell_class, from_canonical, to_canonical

__all__ = ["from_canonical", "make", "to_canonical"]
# All other options belong to the layer.
CELL_OPTIONS = ("dropout", "recurrent_dropout", "recurrent_activation", "implementation")
CELL_OPTIONS += ("use_bias",) + HONOURED["cell"]


def make(keras, cell, units, options):
    name, settings = cell_class(cell)
    inner = {key: value for key, value in options.items() if key in CELL_OPTIONS}
    outer = {key: value for key, value in options.items() if key not in CELL_OPTIONS}
    inner_cell = getattr(keras.layers, name)(units, **dict(settings, **inner))
    return keras.layers.RNN(inner_cell, **outer)
