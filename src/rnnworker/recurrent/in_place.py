"""The recurrent layers of a built model, and the kernel that computes them in place (`rnnlayers`):
the model is the author's own, with its layers, weights and names."""

import contextlib
import functools
import inspect
from unittest import mock

from rnnlayers import CannotCompute, use
from rnnworker.arguments import DECIDED, Refusal
from rnnworker.recurrent.composed import flat, parts_of
from rnnworker.recurrent.cudnn_fallback import set_fallback
from rnnworker.user_functions import caller

RECURRENT = ("LSTM", "GRU", "SimpleRNN")


class Found:
    """A recurrent `layer` of a built model, or a ``Bidirectional`` around two of one function, with
    its `cell` and the `options` that decide what it computes: activations by name or as functions,
    ``use_bias``, ``go_backwards``."""

    def __init__(self, keras, layer):
        self.layer = layer
        first = layer
        for part in parts_of(layer).values():
            first = part
            break
        self.options = options_of(keras, first)
        self.cell = cell_name(keras, first, self.options)


def found_in(keras, model):
    """The `Found` of `model`, at any depth, each layer once. Both directions of a ``Bidirectional``
    are one of them if they have the same cell and options."""
    inside = set()
    found = []
    for layer in flat([model]):
        if id(layer) in inside or any(layer is each.layer for each in found):
            continue
        if is_pair(keras, layer):
            inside.update(id(part) for part in parts_of(layer).values())
        elif not is_recurrent(keras, layer):
            continue
        found.append(Found(keras, layer))
    return found


def is_recurrent(keras, layer):
    """Whether `layer` is an LSTM, GRU or SimpleRNN of Keras, or Keras's loop over one such cell."""
    if isinstance(layer, tuple(getattr(keras.layers, name) for name in RECURRENT)):
        return True
    cells = tuple(getattr(keras.layers, name + "Cell", ()) for name in RECURRENT)
    is_loop = isinstance(layer, getattr(keras.layers, "RNN", ()))
    return is_loop and isinstance(layer.cell, cells)


def is_pair(keras, layer):
    """Whether `layer` is a ``Bidirectional`` whose directions compute the same function."""
    if not isinstance(layer, keras.layers.Bidirectional):
        return False
    forward, backward = parts_of(layer).values()
    if not (is_recurrent(keras, forward) and is_recurrent(keras, backward)):
        return False
    functions = []
    for direction in (forward, backward):
        options = options_of(keras, direction)
        cell = cell_name(keras, direction, options)
        functions.append((cell, dict(options, go_backwards=None)))
    is_reverse = backward.go_backwards and not forward.go_backwards
    return functions[0] == functions[1] and is_reverse


def is_of_keras(keras, layer):
    """Whether `layer` is one of `found_in`, not one with weights in another form."""
    return is_recurrent(keras, layer) or isinstance(layer, keras.layers.Bidirectional)


def options_of(keras, layer):
    """What decides the function of a recurrent layer: see `Found`."""
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
    cell = getattr(layer, "cell", layer)
    kinds = {}
    for name in RECURRENT:
        kinds[name] = (getattr(keras.layers, name), getattr(keras.layers, name + "Cell", ()))
    if isinstance(cell, kinds["LSTM"]):
        return "lstm"
    if isinstance(cell, kinds["GRU"]):
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
    """The `Refusal` of a `CannotCompute`, with the place of its layer."""
    place = place_of(error.layer)
    return Refusal("{}: {}".format(place, error) if place else str(error))


@contextlib.contextmanager
def unrolled_when_made(keras, unrolled):
    """In the block, each recurrent layer is made `unrolled`, or as a loop. For TensorFlow 1, whose
    graph contains a layer as it was when it was called."""

    def with_attribute(original):
        @functools.wraps(original)
        def init(self, *arguments, **settings):
            original(self, *arguments, **settings)
            if self.unroll and not unrolled:
                fault = "{}: a model cannot set unroll=True: {}"
                raise Refusal(fault.format(caller(), DECIDED["unroll"]))
            self.unroll = unrolled

        init.__signature__ = inspect.signature(original)
        return init

    with contextlib.ExitStack() as stack:
        for name in RECURRENT + ("RNN",):
            if hasattr(keras.layers, name):
                layer_class = getattr(keras.layers, name)
                init = with_attribute(layer_class.__init__)
                stack.enter_context(mock.patch.object(layer_class, "__init__", init))
        yield
