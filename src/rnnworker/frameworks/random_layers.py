"""The layers of a model that draw random numbers in each training step: which ones these are, and
how a certificate turns them off."""

import contextlib
import functools
import inspect
from unittest import mock

from rnnworker.recurrent import composed
from rnnworker.recurrent.in_place import RECURRENT

# Layers with a dropout of their own → its attribute. Keras 2.0 to 2.3 lack some of them.
ATTENTION = {
    "Attention": "dropout",
    "AdditiveAttention": "dropout",
    "MultiHeadAttention": "_dropout",
    "GroupQueryAttention": "dropout",
}


def classes_of(layers):
    """Keras's classes of dropout, noise and attention → the setting that says how much."""
    found = {getattr(layers, name): "rate" for name in dir(layers) if "Dropout" in name}
    found[layers.GaussianNoise] = "stddev"
    for name, setting in ATTENTION.items():
        if hasattr(layers, name):
            found[getattr(layers, name)] = setting
    return found


def names(model, layers):
    """The names of the layers of `model` that draw a mask or noise in each training step. `layers`:
    Keras's module."""
    classes = classes_of(layers)
    found = []
    for layer in composed.flat(model.layers):
        settings = [setting for kind, setting in classes.items() if isinstance(layer, kind)]
        settings += ["dropout", "recurrent_dropout"]  # of recurrent layers
        if any(getattr(layer, setting, 0) for setting in settings):
            found.append(layer.name)
    return found


def turn_off(layers, stack):
    """Turns off dropout and noise in Keras's layers, attention and recurrent cells included, and in
    classes derived from them, if they are made in `stack`. A later change would have no effect in
    TensorFlow 1: the graph contains the rate with which a layer was called. Returns what it turns
    off, for `restored`: a list to which each layer adds (itself, setting, value)."""
    turned_off = []

    def with_0(original, settings):
        @functools.wraps(original)
        def init(self, *arguments, **stated):
            original(self, *arguments, **stated)
            for setting in settings:
                turned_off.append((self, setting, getattr(self, setting)))
                setattr(self, setting, 0.0)

        # Keras 3 reads the names of positional arguments from it.
        init.__signature__ = inspect.signature(original)
        return init

    off = {kind: [setting] for kind, setting in classes_of(layers).items()}
    for name in RECURRENT:
        cell = getattr(layers, name + "Cell", None)  # Keras 2.0.6 has none
        off[cell or getattr(layers, name)] = ["dropout", "recurrent_dropout"]
    for layer, settings in off.items():
        replacement = with_0(layer.__init__, settings)
        stack.enter_context(mock.patch.object(layer, "__init__", replacement))
    return turned_off


@contextlib.contextmanager
def restored(turned_off):
    """In the block, layers have the rates that `turn_off` has turned off, so that a kernel refuses
    what it will refuse in a timed run."""
    for layer, setting, value in reversed(turned_off):  # a derived class adds its layer again
        setattr(layer, setting, value)
    try:
        yield
    finally:
        for layer, setting, _ in turned_off:
            setattr(layer, setting, 0.0)
