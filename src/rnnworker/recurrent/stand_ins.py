"""Keras's recurrent layers in a user's ordinary model: while it is built, the names ``LSTM``,
``GRU``, ``SimpleRNN`` and ``Bidirectional`` in ``keras.layers`` stand for the implementation under
test.

Each name is a class, so that ``isinstance`` works; calling it makes a layer of the implementation.
The cell is that of the layer's arguments, with the defaults of the Keras that runs.
"""

import contextlib
import importlib
import inspect
import sys
from unittest import mock

from rnnworker.arguments import Refusal
from rnnworker.recurrent import activation_name, caller, placed, saved
from rnnworker.recurrent.cells import accepts

RECURRENT = ("LSTM", "GRU", "SimpleRNN")
NAMES = RECURRENT + ("Bidirectional",)
# Loaded before a user's file asks for them.
PUBLIC = ("keras.layers", "tensorflow.keras.layers", "tf_keras.layers")

_stand_ins = {}  # class of Keras → its stand-in, the same for all models of the process
_current = []  # the `Recurrent` of the model that is being built


@contextlib.contextmanager
def standing_in(keras, recurrent):
    """Lets Keras's layers stand for those of `recurrent` in the block."""
    # Where Keras 3 looks for the layers of a saved model.
    of_saved = getattr(sys.modules.get("keras.src.api_export"), "REGISTERED_NAMES_TO_OBJS", {})
    with contextlib.ExitStack() as stack:
        for name in NAMES:
            original = getattr(keras.layers, name)
            new = _stand_in(name, original)
            for module in _modules_with(name, original):
                stack.enter_context(mock.patch.object(module, name, new))
            exported = "keras.layers." + name
            if of_saved.get(exported) is original:
                stack.callback(of_saved.__setitem__, exported, original)
                of_saved[exported] = new
        if of_saved:
            load_model = saved.loader(keras, recurrent)
            for module in (keras.models, keras.saving):
                stack.enter_context(mock.patch.object(module, "load_model", load_model))
        _current.append(recurrent)
        stack.callback(_current.pop)
        yield


def originals(keras):
    """Keras's own classes of `RECURRENT`."""
    return tuple(getattr(keras.layers, name) for name in RECURRENT)


def _modules_with(name, original):
    """The modules from which a user's file may take the layer `name` of Keras."""
    for public in PUBLIC:
        package = public.partition(".")[0]
        if package in sys.modules:
            with contextlib.suppress(ImportError):  # it may be another Keras that is incomplete
                importlib.import_module(public)
    found = []
    for path, module in list(sys.modules.items()):
        is_public = path.endswith("keras.layers") and ".src." not in path
        if is_public and vars(module).get(name) is original:
            found.append(module)
    return found


def _stand_in(name, original):
    """The class that stands for `original`, the class of Keras called `name`. Outside of
    `standing_in`, calling it makes Keras's layer."""
    if original in _stand_ins:
        return _stand_ins[original]
    own = {"original": original}
    make = _made_bidirectional
    if name != "Bidirectional":
        own["from_config"] = classmethod(_from_config)
        make = _made_recurrent

    class StandIn(type(original)):
        def __call__(cls, *values, **settings):
            is_stand_in = cls is _stand_ins[original]
            if not _current or _current[-1].is_making:
                if is_stand_in:
                    return original(*values, **settings)
                return super().__call__(*values, **settings)
            if not is_stand_in:
                fault = (
                    "{}: no implementation can stand for the class {}, which derives from "
                    "keras.layers.{}"
                )
                raise Refusal(fault.format(caller(), cls.__name__, name))
            return make(_current[-1], original, values, settings)

        def __instancecheck__(cls, instance):
            if cls is _stand_ins[original]:
                return isinstance(instance, original)
            return super().__instancecheck__(instance)

    _stand_ins[original] = StandIn(name, (original,), own)
    return _stand_ins[original]


def _from_config(stand_in, config):
    """The layer that a saved model's `config` describes."""
    recurrent = _current[-1]
    layer = stand_in.original.from_config(dict(config))
    if recurrent.is_making:
        return layer
    if layer.compute_dtype != recurrent.keras.config.dtype_policy().compute_dtype:
        fault = "{}, layer {}: it computes in {}: write precision=… in the grid"
        raise Refusal(fault.format(caller(), layer.name, layer.compute_dtype))
    settings = dict(config)
    settings.pop("dtype", None)
    for name in settings:
        if isinstance(settings[name], dict):  # an initializer, a regularizer, a constraint
            settings[name] = getattr(layer, name)
    with placed("{}, layer {}".format(caller(), layer.name)):
        return stand_in(**settings)


def _made_recurrent(recurrent, original, values, settings):
    """The layer of `recurrent` in place of ``original(*values, **settings)``."""
    stated = _bound(original, values, settings)
    if "units" not in stated:
        raise Refusal("{}: {} has no units".format(caller(), original.__name__))

    if "activation" in stated:
        stated["activation"] = activation_name(recurrent.keras, stated["activation"])
    cell = cell_of(original, stated)
    return recurrent.make(cell, stated.pop("units"), stated)


def _made_bidirectional(recurrent, original, values, settings):
    """As `_made_recurrent`, of ``Bidirectional``; Keras's own around other layers."""
    stated = _bound(original, values, settings)
    layer = stated.pop("layer", None)
    backward = stated.pop("backward_layer", None)
    if recurrent.made_here(layer) is None:
        return original(*values, **settings)
    if backward is not None and recurrent.made_here(backward) is None:
        fault = "{}: Bidirectional has a backward_layer that is no LSTM, GRU or SimpleRNN"
        raise Refusal(fault.format(caller()))
    if stated.pop("weights", None) is not None:
        raise Refusal("{}: set the weights of Bidirectional with set_weights".format(caller()))
    return recurrent.both_directions(layer, backward, **stated)


def _bound(original, values, settings):
    """{argument: value} of what a model passes to a class of Keras."""
    signature = inspect.signature(original.__init__)
    itself = next(iter(signature.parameters))
    try:
        bound = signature.bind(None, *values, **settings)
    except TypeError as error:
        raise Refusal("{}: {}: {}".format(caller(), original.__name__, error)) from error
    stated = dict(bound.arguments)
    stated.pop(itself)
    stated.update(stated.pop("kwargs", {}))
    return stated


def cell_of(original, stated):
    """The cell of a layer of the class `original` with the arguments `stated`, from which those
    that the cell implies are removed. Defaults of this Keras that are not rnnbench's are added."""
    name = original.__name__
    defaults = inspect.signature(original.__init__).parameters
    if name == "SimpleRNN":
        if stated.get("activation") == "relu":
            del stated["activation"]
            return "rnn_relu"
        return "rnn_tanh"
    usual = defaults["recurrent_activation"].default
    if usual != "sigmoid":
        stated.setdefault("recurrent_activation", usual)
    if name == "LSTM":
        return "lstm"
    reset_after = False  # Keras 2.0.6 has no other GRU
    if accepts(original, "reset_after"):
        reset_after = stated.pop("reset_after", defaults["reset_after"].default)
    return "gru" if reset_after else "gru_reset_before"
