"""Keras's generic layer: a loop over time steps.

In Keras 3 on TensorFlow this is the same code as ``cell``: the inputs are multiplied inside the
loop, step by step. Keras 2's LSTM and GRU are separate classes.
"""

from rnnworker.recurrent.cells import accepts, from_canonical, layer_class, to_canonical

__all__ = ["from_canonical", "make", "to_canonical"]


def make(keras, cell, units, options, use_cudnn=False):
    name, extra = layer_class(cell)
    layer_type = getattr(keras.layers, name)
    settings = dict(extra, **options)
    if accepts(layer_type, "use_cudnn"):
        # Keras's default "auto" would use cuDNN where possible; `keras` is the generic kernel.
        settings["use_cudnn"] = use_cudnn
    if settings.get("reset_after") is False and not accepts(layer_type, "reset_after"):
        del settings["reset_after"]  # Keras 2.0.6 has no other GRU
    layer = layer_type(units, **settings)
    if use_cudnn is False and hasattr(layer, "_could_use_gpu_kernel"):
        layer._could_use_gpu_kernel = False  # Keras 2.x has no argument for it
    return layer
