"""Kernels for the recurrent layers of a finished Keras model, in place.

    from rnnlayers import use

    model = build()  # plain Keras
    use(model, "block")  # before or after model.compile(…)

Every LSTM, GRU and SimpleRNN of the model keeps its name, its weights and its config; only the loop
over time steps is another one. Saved and copied models are plain Keras. Works with Keras 3 on
TensorFlow, torch and jax, with tf.keras 2 and with tf_keras.
"""

from rnnlayers.in_place import kernel_of, kernels, own_hook, own_method, recurrent_layers, use
from rnnlayers.refusals import CannotCompute

__all__ = [
    "CannotCompute",
    "kernel_of",
    "kernels",
    "own_hook",
    "own_method",
    "recurrent_layers",
    "use",
]
