"""Keras's own cells: which class is which cell, and its weights in canonical form.

Keras stores exactly the canonical arrays and gate orders, so moving them copies them.
"""

LAYERS = {
    "lstm": ("LSTM", {}),
    "gru": ("GRU", {"reset_after": True}),
    "rnn_tanh": ("SimpleRNN", {"activation": "tanh"}),
    "rnn_relu": ("SimpleRNN", {"activation": "relu"}),
}
ARRAYS = ("kernel", "recurrent", "bias")


def layer_class(cell):
    """(name in ``keras.layers``, its settings) of the layer for `cell`."""
    return LAYERS[cell]


def cell_class(cell):
    """(name in ``keras.layers``, its settings) of the cell class for `cell`."""
    name, settings = LAYERS[cell]
    return name + "Cell", settings


def to_canonical(layer):
    return dict(zip(ARRAYS, layer.get_weights()))


def from_canonical(layer, arrays):
    layer.set_weights([arrays[name] for name in ARRAYS])
