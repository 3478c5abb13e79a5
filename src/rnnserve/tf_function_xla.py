"""A Keras model inside a ``tf.function`` that XLA compiles, anew for each shape."""

from rnnserve import tf_function
from rnnserve.framework import export

__all__ = ["CODE", "FIXED_SHAPES", "IMPORTS", "export", "load"]

FIXED_SHAPES = False
IMPORTS = ("tensorflow", "keras")
CODE = tf_function.CODE.replace("training=False))", "training=False), jit_compile=True)")


def load(folder, threads):
    return tf_function.load(folder, threads, is_compiled=True)
