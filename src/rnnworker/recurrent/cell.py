"""``RNN(LSTMCell(...))``: the generic loop over a cell, inputs multiplied step by step."""

from rnnworker.recurrent.cells import cell_class, from_canonical, to_canonical

__all__ = ["from_canonical", "make", "to_canonical"]


def make(keras, cell, units, options):
    name, extra = cell_class(cell)
    options = dict(options)
    inner = dict(
        extra,
        dropout=options.pop("dropout"),
        recurrent_dropout=options.pop("recurrent_dropout"),
    )
    return keras.layers.RNN(getattr(keras.layers, name)(units, **inner), **options)
