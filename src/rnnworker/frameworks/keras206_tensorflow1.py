"""Keras 2.0.6, the package, on TensorFlow 1.2: the stack of the CPU against GPU article of 2017.

Outputs and gradients are exact, but in some graphs every training step applies another gradient, up
to 28 % off, in others none does (``benchmarks/plain/one_step.py``; its README has the counts). The
likely cause, unproven: variables are references here, and nothing keeps one layer's update from
running before another's backward pass has read the old value. So loss curves of this build may
differ from the others' by some 1e-3.
"""

import os

from rnnworker.frameworks.arrays_session import ArraysSession


class Session(ArraysSession):
    def import_keras(self, tensorflow):
        os.environ["KERAS_BACKEND"] = "tensorflow"
        import keras

        return keras

    def layer_shapes(self, layer):
        # TensorFlow 1.2 loses how many steps a layer gives out; Keras does not.
        return layer.input_shape[1:], layer.output_shape[1:]
