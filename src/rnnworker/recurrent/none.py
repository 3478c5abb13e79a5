"""The implementation of models without a recurrent layer."""


def make(keras, cell, units, options):
    raise ValueError("this model has a recurrent layer, so it cannot be built with rnn=none")


def to_canonical(layer, values=None):
    return {}


def from_canonical(layer, arrays):
    pass
