"""Keras's generic layer: a loop over time steps.

In Keras 3 on TensorFlow this is the same code as ``cell``: the inputs are multiplied inside the
loop, step by step. Keras 2's LSTM and GRU are classes of their own.
"""

from rnnworker.recurrent.cells import accepts, from_canonical, layer_class, to_canonical

__all__ = ["from_canonical", "make", "to_canonical"]


def make(keras, cell, units, options, use_cudnn=False):
    name, extra = layer_class(cell)
    layer = getattr(keras.layers, name)
    settings = dict(extra, **options)
    if accepts(layer, "use_cudnn"):
        # "auto" would take cuDNN where it can; this label promises the generic kernel.
        settings["use_cudnn"] = use_cudnn
    if settings.get("reset_after") is False and not accepts(layer, "reset_after"):
        del settings["reset_after"]  # Keras 2.0.6 knows no other GRU
    made = layer(units, **settings)
    if use_cudnn is False and hasattr(made, "_could_use_gpu_kernel"):
        made._could_use_gpu_kernel = False  # Keras 2.x has no argument for it
    return made
