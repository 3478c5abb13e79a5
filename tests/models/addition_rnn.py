"""Adds two numbers, digit by digit: an encoder, its last state repeated, a decoder."""

import numpy

STEPS, ANSWER, DIGITS = 7, 4, 12


def build(keras):
    layers = keras.layers
    return keras.models.Sequential(
        [
            layers.LSTM(8, input_shape=(STEPS, DIGITS)),
            layers.RepeatVector(ANSWER),
            layers.LSTM(8, return_sequences=True),
            layers.TimeDistributed(layers.Dense(DIGITS, activation="softmax")),
        ]
    )


def arrays(samples, stream):
    digits = numpy.eye(DIGITS, dtype="float32")
    x = digits[stream.randint(0, DIGITS, (samples, STEPS))]
    return {"x": x, "y": x[:, :ANSWER]}
