"""A small convolutional network on MNIST. Source: Keras's example ``mnist_cnn.py``."""

from rnnworker.readers import images

SHAPE = (images.MNIST_SIDE, images.MNIST_SIDE, 1)


def prepare(source, config):
    """x (samples, 28, 28, 1) float32 in 0–1, y (samples,) int64."""
    return images.labelled(source, SHAPE)


def build(keras, recurrent, config):
    """Two 3 × 3 convolutions of 32 and 64 filters, pooling, one dense layer, softmax."""
    layers = keras.layers
    model = config["model"]
    first, second = model["dropout"]

    inputs = layers.Input(shape=SHAPE)
    hidden = layers.Conv2D(32, (3, 3), activation="relu")(inputs)
    hidden = layers.Conv2D(64, (3, 3), activation="relu")(hidden)
    hidden = layers.MaxPooling2D((2, 2))(hidden)
    hidden = layers.Dropout(first)(hidden)
    outputs = classified(layers, hidden, model["units"], second)
    return keras.models.Model(inputs, outputs)


def classified(layers, images, units, dropout):
    """The outputs of the dense layers after convolutions: one with `units` and relu, dropout, and a
    softmax over 10 classes.

    `layers`: ``keras.layers``; `images`: (batch, rows, columns, channels); `dropout`: the share of
    the units. Returns (batch, 10).
    """
    hidden = layers.Flatten()(images)
    hidden = layers.Dense(units, activation="relu")(hidden)
    hidden = layers.Dropout(dropout)(hidden)
    return layers.Dense(10, activation="softmax")(hidden)
