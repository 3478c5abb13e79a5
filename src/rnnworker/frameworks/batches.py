"""The boundaries of batches, epoch after epoch."""

import numpy


def bounds(orders, batch):
    """(starts, stops) of all batches in the concatenated `orders`; no batch spans two epochs."""
    offsets = numpy.cumsum([0] + [len(order) for order in orders])
    starts = numpy.concatenate(
        [offset + numpy.arange(0, len(order), batch) for offset, order in zip(offsets, orders)]
    )
    return starts, numpy.append(starts[1:], offsets[-1])
