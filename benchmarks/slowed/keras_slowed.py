"""Keras's own layer. Its option `slower` is the fraction by which `digits_slowed` slows a training
step; the layer does not depend on it."""

from rnnworker.recurrent import cells

to_canonical = cells.to_canonical
from_canonical = cells.from_canonical


def make(keras, cell, units, options):
    of_layer = {name: value for name, value in options.items() if name != "slower"}
    return cells.of_keras(keras, cell, units, of_layer)
