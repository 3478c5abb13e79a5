"""Translates sequences of any length: the encoder's states are the decoder's first ones."""

import numpy

TOKENS = 8


def build(keras):
    layers = keras.layers
    source = layers.Input(shape=(None, TOKENS), name="source")
    target = layers.Input(shape=(None, TOKENS), name="target")
    _, hidden, memory = layers.LSTM(6, return_state=True)(source)
    decoder = layers.LSTM(6, return_sequences=True, return_state=True)
    outputs, _, _ = decoder(target, initial_state=[hidden, memory])
    outputs = layers.Dense(TOKENS, activation="softmax")(outputs)
    return keras.models.Model([source, target], outputs)


def arrays(samples, stream):
    tokens = numpy.eye(TOKENS, dtype="float32")
    source = tokens[stream.randint(0, TOKENS, (samples, 7))]
    target = source[:, ::-1]
    return {"x.0": source, "x.1": target, "y": numpy.roll(target, -1, axis=1)}
