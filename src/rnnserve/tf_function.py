"""A Keras model inside a ``tf.function``. The option ``jit_compile``: whether XLA compiles it, anew
for each shape."""

from rnnserve import keras_models
from rnnserve.framework import export

__all__ = ["CODE", "FIXED_SHAPES", "IMPORTS", "export", "load"]

FIXED_SHAPES = False
IMPORTS = ("tensorflow", "keras")
LINES = """\
import keras
import tensorflow as tf
model = keras.saving.load_model("model.keras")
function = tf.function(lambda x: model(x, training=False))
y = function(x)  # tensors: an array of NumPy would be traced anew in each call
"""


def CODE(jit_compile=False):
    if jit_compile:
        return LINES.replace("training=False))", "training=False), jit_compile=True)")
    return LINES


def load(folder, threads, jit_compile=False):
    import tensorflow

    model = keras_models.load(folder, threads)

    @tensorflow.function(jit_compile=jit_compile)
    def function(tensors):
        return model(keras_models.packed(model, tensors), training=False)

    def answer(arrays):
        return keras_models.flat(function([tensorflow.constant(array) for array in arrays]))

    return answer
