"""Keras's ``predict`` with the whole array as one batch."""

from rnnserve import keras_models
from rnnserve.framework import export

__all__ = ["CODE", "FIXED_SHAPES", "IMPORTS", "export", "load"]

FIXED_SHAPES = False
IMPORTS = ("tensorflow", "keras")
CODE = """\
import keras
model = keras.saving.load_model("model.keras")
y = model.predict(x, batch_size=64, verbose=0)  # as the model takes it
"""


def load(folder, threads):
    model = keras_models.load(folder, threads)

    def answer(arrays):
        batch = len(arrays[0])
        outputs = model.predict(keras_models.packed(model, arrays), batch_size=batch, verbose=0)
        return keras_models.flat(outputs)

    return answer
