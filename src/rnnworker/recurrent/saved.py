"""Models that Keras 3 has saved as a whole, ``mine.keras``: the implementation under test takes the
place of their recurrent layers, and every layer keeps the weights of the file."""

from rnnworker.arguments import Refusal
from rnnworker.canonical_weights import join
from rnnworker.recurrent import cells, composed


def loader(keras, recurrent):
    """``keras.models.load_model`` while the layers of `recurrent` stand for Keras's."""
    original = keras.models.load_model

    def load_model(filepath, custom_objects=None, compile=True, **settings):
        with recurrent.making():
            whole = original(filepath, custom_objects, compile, **settings)
        with keras.saving.custom_object_scope(custom_objects or {}):
            model = type(whole).from_config(whole.get_config())
            if not model.built:
                raise Refusal("{} does not say the shape of the model's inputs".format(filepath))
            _copy_weights(whole, model, recurrent)
            if compile and whole.compiled:
                compiled = whole.get_compile_config()
                compiled.pop("jit_compile", None)  # what "auto" was where it was saved
                model.compile_from_config(compiled)
        return model

    return load_model


def _copy_weights(of_file, layer, recurrent):
    """Gives `layer` and those inside it the weights of the same layer `of_file`."""
    if recurrent.made_here(layer) is not None:
        recurrent.from_canonical(layer, _canonical(of_file))
    elif any(recurrent.made_here(each) is not None for each in flat(inner_of(layer))):
        for inner, new in zip(inner_of(of_file), inner_of(layer)):
            _copy_weights(inner, new, recurrent)
    else:
        layer.set_weights(of_file.get_weights())


def _canonical(layer):
    """The canonical weights of one of Keras's layers."""
    parts = composed.parts_of(layer)
    if not parts:
        return cells.to_canonical(layer, None)
    return join(parts, [_canonical(part) for part in parts.values()])


def inner_of(layer):
    """The layers inside a model or a wrapper."""
    inner = getattr(layer, "layers", None)
    if isinstance(inner, (list, tuple)):
        return list(inner)
    wrapped = getattr(layer, "layer", None)
    return [] if wrapped is None else [wrapped]


def flat(layers):
    """`layers` and all layers inside them."""
    return [each for layer in layers for each in (layer, *flat(inner_of(layer)))]
