"""The next character of a text."""

import numpy

STEPS, CHARACTERS = 10, 12


def build(keras, config):
    layers = keras.layers
    return keras.models.Sequential(
        [
            layers.Input(shape=(STEPS, CHARACTERS)),
            layers.LSTM(config["model"].get("units", 8)),
            layers.Dense(CHARACTERS, activation="softmax"),
        ]
    )


def arrays(samples, stream):
    characters = numpy.eye(CHARACTERS, dtype="float32")
    x = characters[stream.randint(0, CHARACTERS, (samples, STEPS))]
    return {"x": x, "y": x[:, 0]}
