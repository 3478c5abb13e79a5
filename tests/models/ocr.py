"""Reads text in images: two bidirectional layers on convolutions, and the CTC loss."""

HEIGHT, WIDTH, CHARACTERS = 8, 16, 6


def build(keras):
    layers = keras.layers
    inputs = layers.Input(shape=(WIDTH, HEIGHT, 1))
    hidden = layers.Conv2D(4, 3, padding="same", activation="relu")(inputs)
    hidden = layers.Reshape((WIDTH, HEIGHT * 4))(hidden)
    hidden = layers.Bidirectional(layers.LSTM(5, return_sequences=True), merge_mode="sum")(hidden)
    hidden = layers.Bidirectional(layers.LSTM(5, return_sequences=True), merge_mode="mul")(hidden)
    model = keras.models.Model(inputs, layers.Dense(CHARACTERS + 1)(hidden))
    model.compile(optimizer="adam", loss="ctc")
    return model


def arrays(samples, stream):
    x = stream.normal(size=(samples, WIDTH, HEIGHT, 1)).astype("float32")
    return {"x": x, "y": stream.randint(1, CHARACTERS, (samples, 3))}
