"""The cells: their classes in Keras, and the layouts of their weights.

`LAYOUTS` describes how an implementation arranges the canonical arrays in its own weights; a layer
names its layout in ``layout``. Keras's layers store exactly the canonical arrays.
"""

import inspect
import sys

import numpy

from rnnworker.arguments import DROPOUT, Refusal

# Explicit, because the default of a gate is hard_sigmoid in Keras 2.0.6 and TensorFlow 1.
GATED = {"activation": "tanh", "recurrent_activation": "sigmoid"}
# Cell → (name in ``keras.layers``, settings); the name of the cell class ends with "Cell".
LAYERS = {
    "lstm": ("LSTM", GATED),
    "gru": ("GRU", dict(GATED, reset_after=True)),
    "gru_reset_before": ("GRU", dict(GATED, reset_after=False)),
    "rnn_tanh": ("SimpleRNN", {"activation": "tanh"}),
    "rnn_relu": ("SimpleRNN", {"activation": "relu"}),
}
ARRAYS = ("kernel", "recurrent", "bias")
ATTRIBUTES = ("kernel", "recurrent_kernel", "bias")  # of a cell of Keras, in the order of `ARRAYS`
WITH_CUDNN = ("lstm", "gru")

MATRIX = "kernel above recurrent"
ICFO = (0, 2, 1, 3)
# Layout → its weights in order: what each contains, and its gates as places in the canonical order
# (lstm: i, f, c, o; gru: z, r, h). Of a GRU's two biases, ``bias`` is the input's and
# ``second_bias`` the state's.
LAYOUTS = {
    "rnn": ((MATRIX, (0,)), ("bias", (0,))),
    "lstm_icfo": ((MATRIX, ICFO), ("bias", ICFO)),
    "gru_reset_before": ((MATRIX, (1, 0)), ("bias", (1, 0)), (MATRIX, (2,)), ("bias", (2,))),
    "contrib_gru": (
        (MATRIX, (1, 0)),
        ("bias", (1, 0)),
        ("kernel", (2,)),
        ("recurrent", (2,)),
        ("bias", (2,)),
        ("second_bias", (2,)),
        ("second_bias", (1, 0)),
    ),
}


def shapes(layout, inputs, units):
    """The shapes of the weights of a layout."""
    rows = {
        MATRIX: (inputs + units,),
        "kernel": (inputs,),
        "recurrent": (units,),
    }
    found = []
    for name, gates in LAYOUTS[layout]:
        columns = len(gates) * units
        found.append(rows.get(name, ()) + (columns,))
    return found


def of_keras(keras, cell, units, options):
    """Keras's layer of a `cell`, with `units` and further `options`."""
    name, extra = LAYERS[cell]
    layer_class = getattr(keras.layers, name)
    settings = dict(extra, **options)
    if settings.get("reset_after") is False and not accepts(layer_class, "reset_after"):
        del settings["reset_after"]  # Keras 2.0.6 has no other GRU
    return layer_class(units, **settings)


def accepts(layer, setting):
    """Whether the constructor of the class `layer` has the argument `setting`."""
    return setting in inspect.signature(layer.__init__).parameters


def supported(name, cell, cells, options):
    """`options` without those of dropout. Raises a `Refusal` if the op called `name` does not have
    this cell or these options."""
    if cell not in cells:
        raise Refusal("{} supports {}, not {}".format(name, " and ".join(cells), cell))
    others = dict(options)
    for dropout in DROPOUT:
        if others.pop(dropout, None):
            raise Refusal("{} has no dropout inside the cell".format(name))
    return others


def to_canonical(layer, values=None):
    """The layer's weights as canonical arrays, or `values` in place of its trainable weights, such
    as gradients."""
    if values is None:
        return _arrays_of(layer, layer.weights, layer.get_weights())
    return _arrays_of(layer, layer.trainable_weights, values)


def from_canonical(layer, arrays):
    """The reverse of `to_canonical`: sets the layer's weights. A kept state stays as it is."""

    def unpack(values):
        return _arrays_of(layer, layer.weights, values)

    layer.set_weights(packed(unpack, layer.get_weights(), arrays))


def _arrays_of(layer, variables, values):
    """The canonical arrays of the `values` of some `variables` of a layer."""
    if hasattr(layer, "unpack"):
        return layer.unpack(values)
    for part in (layer, getattr(layer, "cell", None)):  # or the cell that it runs
        if hasattr(part, "layout"):
            return unpack(LAYOUTS[part.layout], values, part.units)
    named = dict(zip(names_of(layer, variables), values))
    named.pop(None, None)
    return named


def packed(unpack, values, arrays):
    """The `values` of weights, changed so that they are the canonical `arrays` after `unpack`, a
    function that only moves numbers to other places."""
    flat = numpy.concatenate([numpy.ravel(value) for value in values])
    ends = numpy.cumsum([numpy.size(value) for value in values])[:-1]

    def split(numbers):
        parts = numpy.split(numbers, ends)
        return [part.reshape(numpy.shape(value)) for part, value in zip(parts, values)]

    places = unpack(split(numpy.arange(len(flat))))
    for name in places:
        if name in arrays:
            flat[places[name]] = arrays[name]
    return split(flat)


def names_of(layer, variables):
    """The canonical names of some `variables` of a layer: those of `ARRAYS`, ``own_1``, ``own_2``,
    … of further weights of an author's class, and None of a kept state. A weight whose attribute is
    another tensor is known by its own name. A cell without Keras's attributes has its weights in
    the order of `ARRAYS`."""
    cell = getattr(layer, "cell", layer)  # Keras 2.0.6 has no cells
    arrays = layer.weights
    if hasattr(cell, ATTRIBUTES[0]):
        arrays = [getattr(cell, attribute, None) for attribute in ATTRIBUTES]
    names = {id(array): name for name, array in zip(ARRAYS, arrays)}
    for attribute in _not_weights(layer):
        for each in layer.weights:
            if _last_name(each) == attribute:
                names[id(each)] = ARRAYS[ATTRIBUTES.index(attribute)]
    states = [id(state) for state in getattr(layer, "states", None) or ()]
    further = [id(each) for each in layer.weights if id(each) not in list(names) + states]
    for number, each in enumerate(further, 1):
        names[each] = "own_{}".format(number)
    return [names.get(id(variable)) for variable in variables]


def own_weight(layer):
    """``CLASS.ATTRIBUTE`` of the cell of `layer` that an author computes from other weights, or
    ``CLASS.NAME`` of a further weight; None if the weights are those of Keras."""
    cell = getattr(layer, "cell", layer)
    own = _not_weights(layer)
    for name, variable in zip(names_of(layer, layer.weights), layer.weights):
        if name is not None and name not in ARRAYS:
            own.append(_last_name(variable))
    if not own:
        return None
    owner = cell if hasattr(cell, own[0]) else layer
    return "{}.{}".format(type(owner).__name__, own[0])


def _last_name(variable):
    """The name of a variable without those of layers around it."""
    return variable.name.split("/")[-1].partition(":")[0]


def has_given_weights(layer):
    """Whether what calls `layer` puts a tensor in place of a weight, such as a normalized one: the
    layer cannot be called on its own."""
    of_object = vars(getattr(layer, "cell", layer))
    return any(attribute in of_object for attribute in _not_weights(layer))


def _not_weights(layer):
    """Those of `ATTRIBUTES` of the cell of `layer` that are no weights of the layer."""
    cell = getattr(layer, "cell", layer)
    weights = list(map(id, layer.weights))
    found = []
    for attribute in ATTRIBUTES:
        value = getattr(cell, attribute, None)
        if value is not None and id(value) not in weights:
            found.append(attribute)
    return found


def unpack(layout, values, units):
    """The `values` of weights in `layout`, the value of one in `LAYOUTS`, or their gradients, as
    canonical arrays."""
    parts = {}
    for (name, gates), value in zip(layout, values):
        of_gates = numpy.split(numpy.asarray(value), len(gates), axis=-1)
        for gate, part in zip(gates, of_gates):
            if name == MATRIX:
                parts["kernel", gate] = part[:-units]
                parts["recurrent", gate] = part[-units:]
            else:
                parts[name, gate] = part
    rows = {}
    # In the order of the gates.
    for name, gate in sorted(parts):
        rows.setdefault(name, []).append(parts[name, gate])
    rows = {name: numpy.concatenate(rows[name], -1) for name in rows}
    if "second_bias" in rows:
        rows["bias"] = numpy.stack([rows["bias"], rows.pop("second_bias")])
    return rows


def keras_version(keras):
    """The version of Keras. ``tensorflow.keras`` of TensorFlow 2 has none; the package behind it
    has."""
    if hasattr(keras, "__version__"):
        return keras.__version__
    return sys.modules[keras.Model.__module__.partition(".")[0]].__version__
