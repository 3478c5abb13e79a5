"""Batches: their boundaries, epoch after epoch, and where they come from."""

import numpy


def bounds(orders, batch):
    """(starts, stops) of all batches in the concatenated `orders`; no batch spans two epochs."""
    offsets = numpy.cumsum([0] + [len(order) for order in orders])
    starts = numpy.concatenate(
        [offset + numpy.arange(0, len(order), batch) for offset, order in zip(offsets, orders)]
    )
    return starts, numpy.append(starts[1:], offsets[-1])


def feeds_on_device(config):
    """Whether a run with `config` gathers its batches on the device (``device.feed``). Augmented
    images are made in the host's memory, a certificate feeds single batches, and a probe none."""
    if config["device"].get("feed") != "device" or config.get("certifying"):
        return False
    return "model" in config and not config["model"]["data"].get("augment")
