"""The layers of a model that draw random numbers in each training step: which ones these are, and
how a certificate turns them off."""

from rnnworker.recorded import recording
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
    """The names of the layers of `model` that draw a mask or noise in each training step, without
    those inside another of them. `layers`: Keras's module."""
    classes = classes_of(layers)

    def draws(layer):
        settings = [setting for kind, setting in classes.items() if isinstance(layer, kind)]
        settings += ["dropout", "recurrent_dropout"]  # of recurrent layers
        return any(getattr(layer, setting, 0) for setting in settings)

    found = composed.flat(composed.inner_of(model), lambda layer: not draws(layer))
    return [layer.name for layer in found if draws(layer)]


def off(model, layers):
    """In its block, `turned_off`."""
    return composed.changed(turned_off(model, layers))


def turned_off(model, layers):
    """What turns off dropout and noise in Keras's layers of `model`, attention and recurrent cells
    included: [(layer, attribute, 0)]. `layers`: Keras's module."""
    rates = _rates(layers)
    found = []
    for layer in composed.flat([model]):
        for kind, settings in rates.items():
            if isinstance(layer, kind):
                found += [(layer, setting, 0.0) for setting in settings]
    return found


def _rates(layers):
    """Keras's classes of `classes_of` and of recurrent cells → the names of their rates."""
    found = {kind: [setting] for kind, setting in classes_of(layers).items()}
    for name in RECURRENT:
        cell = getattr(layers, name + "Cell", None)  # Keras 2.0.6 has none
        found[cell or getattr(layers, name)] = ["dropout", "recurrent_dropout"]
    return found


def made_off(layers):
    """As `off`, for layers that are made in its block: in TensorFlow 1, a later change would
    have no effect, because the graph contains the rate with which a layer was called."""

    def with_0(settings):
        def turn_off(_, arguments):
            layer = next(iter(arguments.values()))
            for setting in settings:
                setattr(layer, setting, 0.0)

        return turn_off

    rates = _rates(layers)
    return recording([(kind, "__init__", with_0(rates[kind])) for kind in rates])
