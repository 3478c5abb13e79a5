"""Where batches begin and end, epoch after epoch."""

import numpy


def bounds(orders, batch):
    """(starts, stops) of all batches in the concatenated `orders`; none spans two epochs."""
    offsets = numpy.cumsum([0] + [len(one) for one in orders])
    starts = numpy.concatenate(
        [offset + numpy.arange(0, len(one), batch) for offset, one in zip(offsets, orders)]
    )
    return starts, numpy.append(starts[1:], offsets[-1])
