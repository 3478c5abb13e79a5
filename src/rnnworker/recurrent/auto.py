"""The default of a user: ``LSTM(units)``, which runs on cuDNN whenever Keras can use it."""

from rnnworker.recurrent import keras as generic
from rnnworker.recurrent import torch_cudnn
from rnnworker.recurrent.cells import from_canonical, to_canonical

__all__ = ["from_canonical", "make", "to_canonical"]


def make(keras, cell, units, options):
    # A certificate makes layers that must run on cuDNN in the same process.
    torch_cudnn.set_fallback(keras, allowed=True)
    return generic.make(keras, cell, units, options, use_cudnn="auto")
