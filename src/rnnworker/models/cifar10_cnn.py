"""A convolutional network on CIFAR-10 with images that are shifted and mirrored in each epoch.
Source: Keras's example ``cifar10_cnn.py`` (2.0.6, 2017)."""

import numpy

from rnnworker.models import mnist_cnn
from rnnworker.readers import images as reader

SHAPE = (reader.CIFAR10_SIDE, reader.CIFAR10_SIDE, 3)


def prepare(source, config):
    """x (samples, 32, 32, 3) float32 in 0–1, y (samples,) int64."""
    return reader.labelled(source, SHAPE)


def augment(images, stream, config):
    """Shifts each image by up to ``model.shift`` of its side along both axes and mirrors it with
    probability 0.5; border pixels are repeated. Shifts are whole pixels, as in Keras 2.0.6's
    ``ImageDataGenerator``, which took the nearest pixel.

    **Arguments:**

    - `images`: (samples, rows, columns, channels).
    - `stream`: a ``numpy.random.RandomState``; the same state gives the same images.

    **Returns:** new images of the same shape and type.
    """
    samples, height, width = images.shape[:3]
    shift = config["model"]["shift"]
    # Always in this order from the stream.
    down = stream.uniform(-shift, shift, samples) * height
    right = stream.uniform(-shift, shift, samples) * width
    mirrored = stream.uniform(size=samples) < 0.5

    rows = _shifted(height, down)
    columns = _shifted(width, right)
    columns[mirrored] = columns[mirrored, ::-1]
    indices = numpy.arange(samples)[:, None, None]
    return images[indices, rows[:, :, None], columns[:, None, :]]


def _shifted(size, shifts):
    """The pixels along an axis of `size` pixels that are seen after each of the `shifts`, which are
    in pixels: (samples, size)."""
    shifts = numpy.rint(shifts).astype("int64")
    pixels = numpy.arange(size) + shifts[:, None]
    return numpy.clip(pixels, 0, size - 1)


def build(keras, recurrent, config):
    """Two blocks of two 3 × 3 convolutions (32 and 64 filters) and pooling, one dense layer,
    softmax. The first convolution of a block keeps the size of the images, the second does not."""
    layers = keras.layers
    model = config["model"]
    first, second, third = model["dropout"]
    inputs = hidden = layers.Input(shape=SHAPE)
    for filters, rate in ((32, first), (64, second)):
        hidden = layers.Conv2D(filters, (3, 3), padding="same", activation="relu")(hidden)
        hidden = layers.Conv2D(filters, (3, 3), activation="relu")(hidden)
        hidden = layers.MaxPooling2D((2, 2))(hidden)
        hidden = layers.Dropout(rate)(hidden)
    outputs = mnist_cnn.classified(layers, hidden, model["units"], third)
    return keras.models.Model(inputs, outputs)
