"""Keras's layer with ``unroll=True``: one copy of the cell in the graph per time step."""

from rnnworker.recurrent import keras as generic
from rnnworker.recurrent.cells import from_canonical, to_canonical

__all__ = ["from_canonical", "make", "to_canonical"]


def make(keras, cell, units, options):
    return generic.make(keras, cell, units, dict(options, unroll=True))
