"""Keras's own cells: the class of each cell, and its weights in canonical form.

Keras stores exactly the canonical arrays and gate orders, so the conversions only copy.
"""

import inspect

# Explicit, because the default of a gate is hard_sigmoid in Keras 2.0.6 and TensorFlow 1.
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
    """(name in ``keras.layers``, settings) of the layer for `cell`."""
    return LAYERS[cell]


def cell_class(cell):
    """(name in ``keras.layers``, settings) of the cell class for `cell`."""
    name, settings = LAYERS[cell]
    return name + "Cell", settings


def accepts(layer, setting):
    """Whether the constructor of the class `layer` has the argument `setting`."""
    return setting in inspect.signature(layer.__init__).parameters


def check_supported(name, cell, cells, options):
    """Raises a ValueError if the op called `name` does not have this cell or these options."""
    if cell not in cells:
        raise ValueError("{} supports {}, not {}".format(name, " and ".join(cells), cell))
    if options.get("dropout") or options.get("recurrent_dropout"):
        raise ValueError("{} has no dropout inside the cell".format(name))


def to_canonical(layer, values=None):
    """The layer's weights as canonical arrays, or `values` in their place, such as gradients."""
    return dict(zip(ARRAYS, layer.get_weights() if values is None else values))


def from_canonical(layer, arrays):
    layer.set_weights([arrays[name] for name in ARRAYS if name in arrays])
