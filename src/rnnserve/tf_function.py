"""A Keras model inside a ``tf.function``."""

from rnnserve import keras_models
from rnnserve.framework import export

__all__ = ["CODE", "FIXED_SHAPES", "IMPORTS", "export", "load"]

FIXED_SHAPES = False
IMPORTS = ("tensorflow", "keras")
CODE = """\
import keras
import tensorflow as tf
model = keras.saving.load_model("model.keras")
function = tf.function(lambda x: model(x, training=False))
y = function(x)  # tensors: an array of NumPy would be traced anew in each call
"""


def load(folder, threads, is_compiled=False):
    import tensorflow

    model = keras_models.load(folder, threads)

    @tensorflow.function(jit_compile=is_compiled)
    def function(tensors):
        return model(keras_models.packed(model, tensors), training=False)

    def answer(arrays):
        return keras_models.flat(function([tensorflow.constant(array) for array in arrays]))

    return answer
