"""Models that Keras 3 has saved as a whole, ``mine.keras``: the implementation under test takes the
place of their recurrent layers, and every layer keeps the weights of the file."""

from rnnworker.arguments import Refusal
from rnnworker.recurrent import placed
from rnnworker.recurrent.composed import flat, inner_of


def loader(keras, recurrent):
    """``keras.models.load_model`` while the layers of `recurrent`, a `Recurrent`, stand for
    Keras's. Its model has the weights of the file and, if the file says how it was compiled, is
    compiled in the same way. It raises `Refusal` for a model whose inputs have no shape."""
    original = keras.models.load_model

    def load_model(filepath, custom_objects=None, compile=True, **settings):
        with recurrent.making():
            whole = original(filepath, custom_objects, compile, **settings)
        scope = keras.saving.custom_object_scope(custom_objects or {})
        with scope, placed(str(filepath)):
            config = whole.get_config()
            model = type(whole).from_config(config)
            if not model.built:
                raise Refusal("{} does not say the shape of the model's inputs".format(filepath))
            _copy_weights(whole, model, recurrent)
            if compile and whole.compiled:
                compiled = whole.get_compile_config()
                # What "auto" was where it was saved; build.jit_compile in the grid decides.
                compiled.pop("jit_compile", None)
                model.compile_from_config(compiled)
        return model

    return load_model


def _copy_weights(of_file, layer, recurrent):
    """Gives `layer` and those inside it the weights of the same layer `of_file`."""
    if recurrent.made_here(layer) is not None:
        arrays = recurrent.of_keras().to_canonical(of_file)
        recurrent.from_canonical(layer, arrays)
        return

    inner = inner_of(layer)
    has_made = any(recurrent.made_here(each) is not None for each in flat(inner))
    if not has_made:
        layer.set_weights(of_file.get_weights())
        return
    for old, new in zip(inner_of(of_file), inner):
        _copy_weights(old, new, recurrent)
