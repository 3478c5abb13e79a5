"""The framework's own recurrent layer without Keras's loop: ``torch.nn.LSTM``, ``GRU`` and ``RNN``
in Keras 3 on torch, rnnbench's cells in ``jax.lax.scan`` in Keras 3 on jax. Neither supports
dropout inside the cell or masks."""

from rnnworker.recurrent.cells import check_supported
from rnnworker.recurrent.layer import layer_settings


def make(keras, cell, units, options):
    module = _framework_module(keras)
    check_supported(module.NAME, cell, module.CELLS, options)
    return module.layer_class(keras, cell)(units, **layer_settings(options))


def to_canonical(layer, values=None):
    """The canonical arrays of all weights, or of `values` in place of the trained weights."""
    return layer.unpack(layer.get_weights() if values is None else values)


def from_canonical(layer, arrays):
    layer.set_weights(layer.pack(arrays))


def _framework_module(keras):
    """The module for the framework on which this Keras runs."""
    backend = keras.backend.backend()
    if backend == "torch":
        from rnnworker.recurrent import native_torch

        return native_torch
    if backend == "jax":
        from rnnworker.recurrent import native_jax

        return native_jax
    raise ValueError("rnn=native needs Keras 3 on torch or jax; this Keras is on " + backend)
