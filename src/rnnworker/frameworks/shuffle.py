"""The order in which a Keras of TensorFlow 1's time sees its samples.

``fit`` on arrays, what everybody used then, asks ``numpy.random.shuffle`` for a new order in every
epoch. It gets the canonical one: the same work, the same path of the data, another order.
"""

import contextlib

import numpy


@contextlib.contextmanager
def shuffled_as(orders):
    """Within the block the n-th call of ``numpy.random.shuffle`` writes ``orders[n]``. Raises
    `RuntimeError` where `fit` asks for something else, or never asked."""
    original, asked = numpy.random.shuffle, []

    def shuffle(array):
        if len(asked) == len(orders) or len(array) != len(orders[len(asked)]):
            raise RuntimeError("fit shuffles something else than the samples, once in each epoch")
        array[:] = orders[len(asked)]
        asked.append(len(array))

    numpy.random.shuffle = shuffle
    try:
        yield
    finally:
        numpy.random.shuffle = original
    if not asked:
        raise RuntimeError("fit never shuffled: the order of the samples is not the canonical one")
