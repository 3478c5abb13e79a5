"""``RNN(LSTMCell(...))``: the generic loop over a cell, inputs multiplied step by step."""

from rnnworker.options import HONOURED
from rnnworker.recurrent.cells import cell_class, from_canonical, to_canonical

__all__ = ["from_canonical", "make", "to_canonical"]
# Every other option is the layer's.
_OF_THE_CELL = ("dropout", "recurrent_dropout", "recurrent_activation", "implementation")
OF_THE_CELL = _OF_THE_CELL + ("use_bias",) + HONOURED["cell"]


def make(keras, cell, units, options):
    name, extra = cell_class(cell)
    inner = {key: value for key, value in options.items() if key in OF_THE_CELL}
    outer = {key: value for key, value in options.items() if key not in OF_THE_CELL}
    made = getattr(keras.layers, name)(units, **dict(extra, **inner))
    return keras.layers.RNN(made, **outer)
