"""The recurrent layers of a built model, and the kernel that computes them in place (`rnnlayers`):
the model is the author's own, with its layers, weights and names."""

from rnnlayers import CannotCompute, own_hook, recurrent_layers, use
from rnnworker.arguments import DECIDED, Refusal
from rnnworker.recorded import recording
from rnnworker.recurrent.composed import flat, parts_of
from rnnworker.recurrent.cudnn_fallback import set_fallback
from rnnworker.user_functions import caller, one_line

RECURRENT = ("LSTM", "GRU", "SimpleRNN")


def found_in(keras, model):
    """The recurrent layers of `model`, at any depth, each once. A ``Bidirectional`` is one of them
    if both directions have the same cell, units and options; else each direction is."""
    inside = set()
    found = []
    for layer in flat([model]):
        if id(layer) in inside or any(layer is each for each in found):
            continue
        if is_pair(keras, layer):
            inside.update(id(part) for part in parts_of(layer).values())
        elif kind_of(keras, layer) is None:
            continue
        found.append(layer)
    return found


def kernels_given(model):
    """The single layers of `model` that get a kernel: beside those of `found_in`, loops over
    several cells, and layers without weights of their own."""
    if not hasattr(model, "_flatten_layers"):  # TensorFlow 1, of which a model unrolls when made
        return []
    return recurrent_layers(model)


def kind_of(keras, layer):
    """The name in `RECURRENT` of a layer of Keras, or of Keras's loop over one such cell; None of
    any other layer."""
    is_loop = isinstance(layer, getattr(keras.layers, "RNN", ()))  # Keras 2.0.6 has none
    for name in RECURRENT:
        if isinstance(layer, getattr(keras.layers, name)):
            return name
        if is_loop and isinstance(layer.cell, getattr(keras.layers, name + "Cell")):
            return name
    return None


def is_cell(keras, layer):
    """Whether `layer` is the cell of an LSTM, GRU or SimpleRNN of Keras."""
    cells = tuple(getattr(keras.layers, name + "Cell", ()) for name in RECURRENT)
    return isinstance(layer, cells)


def is_pair(keras, layer):
    """Whether `layer` is Keras's ``Bidirectional``, without a class or a hook of an author's, whose
    directions compute the same function of arrays with the same shapes."""
    if layer.__class__ is not keras.layers.Bidirectional or own_hook(layer):
        return False
    forward, backward = parts_of(layer).values()
    if None in (kind_of(keras, forward), kind_of(keras, backward)):
        return False
    functions = []
    for direction in (forward, backward):
        options = options_of(keras, direction)
        cell = cell_name(keras, direction, options)
        units = getattr(direction, "cell", direction).units
        functions.append((cell, units, dict(options, go_backwards=None)))
    is_reverse = backward.go_backwards and not forward.go_backwards
    return functions[0] == functions[1] and is_reverse


def options_of(keras, layer):
    """What decides the function of a recurrent layer: activations by name or as functions,
    ``use_bias``, ``go_backwards``."""
    cell = getattr(layer, "cell", layer)  # Keras 2.0.6 has no cells
    options = {"go_backwards": bool(layer.go_backwards), "use_bias": bool(cell.use_bias)}
    for argument in ("activation", "recurrent_activation"):
        if hasattr(cell, argument):
            options[argument] = activation_name(keras, getattr(cell, argument))
    return options


def activation_name(keras, function):
    """The name of a `function` of Keras's activations; any other function itself."""
    name = getattr(function, "__name__", None)
    if name and getattr(keras.activations, name, None) is function:
        return name
    return function


def cell_name(keras, layer, options):
    kind = kind_of(keras, layer)
    if kind == "LSTM":
        return "lstm"
    if kind == "GRU":
        cell = getattr(layer, "cell", layer)
        return "gru" if getattr(cell, "reset_after", False) else "gru_reset_before"
    return "rnn_relu" if options["activation"] == "relu" else "rnn_tanh"


def give(keras, model, kernel, place_of):
    """Lets all recurrent layers of `model` compute with `kernel`, as `rnnlayers.use` does. Raises
    `Refusal` with the place where the layer was made, of which `place_of` is the function."""
    set_fallback(keras, allowed=kernel != "cudnn")
    try:
        use(model, kernel)
    except CannotCompute as error:
        raise refused(error, place_of) from error


def refused(error, place_of):
    """The `Refusal` of a `CannotCompute`, with the place of its layer; with that of the error if it
    has no layer."""
    place = place_of(error.layer)
    return Refusal("{}: {}".format(place, error) if place else one_line(error))


def unrolled_when_made(keras, unrolled):
    """In its block, each recurrent layer is made `unrolled`, or as a loop. For TensorFlow 1, whose
    graph contains a layer as it was when it was called."""

    def unroll(_, arguments):
        layer = next(iter(arguments.values()))
        if layer.unroll and not unrolled:
            fault = "{}: a model cannot set unroll=True: {}"
            raise Refusal(fault.format(caller(), DECIDED["unroll"]))
        layer.unroll = unrolled

    names = RECURRENT + ("RNN",)
    classes = [getattr(keras.layers, name) for name in names if hasattr(keras.layers, name)]
    return recording([(each, "__init__", unroll) for each in classes])
