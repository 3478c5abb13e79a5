"""Keras's own cells: which class is which cell, and its weights in canonical form.

Keras stores exactly the canonical arrays and gate orders, so moving them copies them.
"""

import inspect

# Stated in full: in Keras 2.0.6 and in TensorFlow 1 a gate's default is hard_sigmoid.
GATED = {"activation": "tanh", "recurrent_activation": "sigmoid"}
LAYERS = {
    "lstm": ("LSTM", GATED),
    "gru": ("GRU", dict(GATED, reset_after=True)),
    "gru_reset_before": ("GRU", dict(GATED, reset_after=False)),
    "rnn_tanh": ("SimpleRNN", {"activation": "tanh"}),
    "rnn_relu": ("SimpleRNN", {"activation": "relu"}),
}
ARRAYS = ("kernel", "recurrent", "bias")
WITH_CUDNN = ("lstm", "gru")


def layer_class(cell):
    """(name in ``keras.layers``, its settings) of the layer for `cell`."""
    return LAYERS[cell]


def cell_class(cell):
    """(name in ``keras.layers``, its settings) of the cell class for `cell`."""
    name, settings = LAYERS[cell]
    return name + "Cell", settings


def accepts(layer, setting):
    """Whether the class `layer` of this Keras has the argument `setting`."""
    return setting in inspect.signature(layer.__init__).parameters


def refuse(name, cell, cells, options):
    """Raises a ValueError for a cell or an option that the op behind `name` does not have."""
    if cell not in cells:
        raise ValueError("{} is {}; it has no {}".format(name, " or ".join(cells), cell))
    if options.get("dropout") or options.get("recurrent_dropout"):
        raise ValueError("{} has no dropout inside the cell".format(name))


def to_canonical(layer, values=None):
    """The layer's weights as canonical arrays; `values` are other arrays in their place, such
    as their gradients."""
    return dict(zip(ARRAYS, layer.get_weights() if values is None else values))


def from_canonical(layer, arrays):
    layer.set_weights([arrays[name] for name in ARRAYS if name in arrays])
