"""The order of the samples in a Keras on TensorFlow 1.

``fit`` on arrays, as was usual at the time, asks ``numpy.random.shuffle`` for a new order in every
epoch. Here it gets the canonical order instead: the same work on the same path of the data.
"""

import contextlib

import numpy


@contextlib.contextmanager
def fixed_shuffle_orders(orders):
    """Makes the n-th call of ``numpy.random.shuffle`` in the block write ``orders[n]``. Raises
    `RuntimeError` if `fit` shuffles anything but the samples once per epoch, or never shuffles."""
    original, lengths = numpy.random.shuffle, []

    def shuffle(array):
        if len(lengths) == len(orders) or len(array) != len(orders[len(lengths)]):
            raise RuntimeError("fit shuffles something else than the samples once per epoch")
        array[:] = orders[len(lengths)]
        lengths.append(len(array))

    numpy.random.shuffle = shuffle
    try:
        yield
    finally:
        numpy.random.shuffle = original
    if not lengths:
        raise RuntimeError("fit never shuffled: the order of the samples is not the canonical one")
