"""A Keras model called as a function, op by op: ``model(x)``."""

from rnnserve import keras_models
from rnnserve.framework import export

__all__ = ["CODE", "FIXED_SHAPES", "IMPORTS", "export", "load"]

FIXED_SHAPES = False
IMPORTS = ("tensorflow", "keras")
CODE = """\
import keras
model = keras.saving.load_model("model.keras")
y = model(x, training=False)  # an array, a list or a mapping, as the model takes it
"""


def load(folder, threads):
    model = keras_models.load(folder, threads)

    def answer(arrays):
        return keras_models.flat(model(keras_models.packed(model, arrays), training=False))

    return answer
