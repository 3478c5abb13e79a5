"""What a framework has for itself, with no loop of Keras's: ``torch.nn.LSTM``, ``GRU`` and ``RNN``
in Keras 3 on torch, a cell of our own in ``jax.lax.scan`` in Keras 3 on jax. Neither has dropout
inside the cell, nor masks."""

from rnnworker.recurrent.cells import refuse
from rnnworker.recurrent.layer import layer_settings


def make(keras, cell, units, options):
    module = _of(keras)
    refuse(module.NAME, cell, module.CELLS, options)
    return module.layer_class(keras, cell)(units, **layer_settings(options))


def to_canonical(layer, values=None):
    """Of all weights, or of `values` in the place of those that are trained."""
    return layer.unpack(layer.get_weights() if values is None else values)


def from_canonical(layer, arrays):
    layer.set_weights(layer.pack(arrays))


def _of(keras):
    """The module for the framework below this Keras."""
    backend = keras.backend.backend()
    if backend == "torch":
        from rnnworker.recurrent import native_torch

        return native_torch
    if backend == "jax":
        from rnnworker.recurrent import native_jax

        return native_jax
    raise ValueError("rnn=native is for Keras 3 on torch or jax, this one is on " + backend)
