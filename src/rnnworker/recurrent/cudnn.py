"""Keras's layer on cuDNN, or an error: it never falls back without a word.

Keras 3 has ``use_cudnn=True`` for it, which Keras on torch forgets where cuDNN raises
(`torch_cudnn`); Keras 2 takes cuDNN by itself where the layer's arguments allow it, which the
attested kernel of the run then shows.
"""

from rnnworker.recurrent import keras as generic
from rnnworker.recurrent import torch_cudnn
from rnnworker.recurrent.cells import WITH_CUDNN, from_canonical, to_canonical

__all__ = ["from_canonical", "make", "to_canonical"]


def make(keras, cell, units, options):
    if cell not in WITH_CUDNN:
        raise ValueError("Keras takes cuDNN for lstm and gru only, not for {}".format(cell))
    if options.get("recurrent_dropout"):
        raise ValueError("cuDNN has no recurrent dropout")
    layer = generic.make(keras, cell, units, options, use_cudnn=True)
    torch_cudnn.promise(keras, kept=True)
    if getattr(layer, "_could_use_gpu_kernel", True) is False:
        raise ValueError("Keras would not take cuDNN for this layer")
    return layer
