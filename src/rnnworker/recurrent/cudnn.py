"""Keras's layer on cuDNN, or an error: it never falls back silently.

Keras 3 has the argument ``use_cudnn=True``, which Keras on torch ignores if cuDNN raises
(`torch_cudnn`). Keras 2 uses cuDNN if the arguments of the layer permit it; the attested kernel of
the run shows whether it did.
"""

from rnnworker.recurrent import keras as generic
from rnnworker.recurrent import torch_cudnn
from rnnworker.recurrent.cells import WITH_CUDNN, from_canonical, to_canonical

__all__ = ["from_canonical", "make", "to_canonical"]


def make(keras, cell, units, options):
    if cell not in WITH_CUDNN:
        raise ValueError("Keras uses cuDNN for lstm and gru only, not for {}".format(cell))
    if options.get("recurrent_dropout"):
        raise ValueError("cuDNN has no recurrent dropout")
    layer = generic.make(keras, cell, units, options, use_cudnn=True)
    torch_cudnn.set_fallback(keras, allowed=False)
    if getattr(layer, "_could_use_gpu_kernel", True) is False:
        raise ValueError("Keras would not use cuDNN for this layer")
    return layer
