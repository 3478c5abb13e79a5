"""Keras's ``predict_on_batch``: what is measured if nothing else is said."""

from rnnserve import keras_models

FIXED_SHAPES = False
IMPORTS = ("tensorflow", "keras")
CODE = """\
import keras
model = keras.saving.load_model("model.keras")
y = model.predict_on_batch(x)  # an array, a list or a mapping, as the model takes it
"""


def export(model, arrays, folder):
    keras_models.save(model, folder)


def load(folder, threads):
    model = keras_models.load(folder, threads)

    def answer(arrays):
        return keras_models.flat(model.predict_on_batch(keras_models.packed(model, arrays)))

    return answer
