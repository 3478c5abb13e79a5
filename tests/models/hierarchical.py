"""An image row by row, and each row pixel by pixel."""

import numpy

ROWS, PIXELS, CLASSES = 5, 6, 3


def build(keras):
    layers = keras.layers
    inputs = layers.Input(shape=(ROWS, PIXELS, 1))
    rows = layers.TimeDistributed(layers.LSTM(4))(inputs)
    outputs = layers.Dense(CLASSES, activation="softmax")(layers.LSTM(5)(rows))
    return keras.models.Model(inputs, outputs)


def arrays(samples, stream):
    x = stream.normal(size=(samples, ROWS, PIXELS, 1)).astype("float32")
    return {"x": x, "y": numpy.eye(CLASSES, dtype="float32")[stream.randint(0, CLASSES, samples)]}
