"""Classifies texts: two bidirectional layers on an embedding."""

WORDS, STEPS = 50, 9


def build(keras):
    layers = keras.layers
    inputs = layers.Input(shape=(STEPS,), dtype="int32")
    hidden = layers.Embedding(WORDS, 6)(inputs)
    hidden = layers.Bidirectional(layers.LSTM(5, return_sequences=True))(hidden)
    hidden = layers.Bidirectional(layers.LSTM(4))(hidden)
    outputs = layers.Dense(1, activation="sigmoid")(hidden)
    model = keras.models.Model(inputs, outputs)
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    return model


def arrays(samples, stream):
    x = stream.randint(0, WORDS, (samples, STEPS)).astype("int32")
    return {"x": x, "y": (x.sum(1) % 2).astype("int64")[:, None]}
