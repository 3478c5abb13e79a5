"""What a user gets who says nothing: ``LSTM(units)``, cuDNN where Keras finds it can be used."""

from rnnworker.recurrent import keras as generic
from rnnworker.recurrent import torch_cudnn
from rnnworker.recurrent.cells import from_canonical, to_canonical

__all__ = ["from_canonical", "make", "to_canonical"]


def make(keras, cell, units, options):
    # A certificate makes layers that promise cuDNN in the same process.
    torch_cudnn.promise(keras, kept=False)
    return generic.make(keras, cell, units, options, use_cudnn="auto")
