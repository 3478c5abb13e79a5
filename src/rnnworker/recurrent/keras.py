"""Keras's generic layer: a loop over time steps, one matrix product with the inputs ahead."""

from rnnworker.recurrent.cells import from_canonical, layer_class, to_canonical

__all__ = ["from_canonical", "make", "to_canonical"]


def make(keras, cell, units, options):
    name, extra = layer_class(cell)
    settings = dict(extra, **options)
    if cell in ("lstm", "gru"):
        # "auto" would take cuDNN where it can; this label promises the generic kernel.
        settings["use_cudnn"] = False
    return getattr(keras.layers, name)(units, **settings)
