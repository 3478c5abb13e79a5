"""Describes an image: its vector is the decoder's first state, and short texts are padded."""

WORDS, STEPS, FEATURES = 20, 6, 10


def build(keras):
    layers = keras.layers
    image = layers.Input(shape=(FEATURES,), name="image")
    words = layers.Input(shape=(STEPS,), dtype="int32", name="words")
    state = layers.Dense(6, activation="tanh")(image)
    embedded = layers.Embedding(WORDS, 5, mask_zero=True)(words)
    hidden = layers.LSTM(6)(embedded, initial_state=[state, state])
    return keras.models.Model([image, words], layers.Dense(WORDS, activation="softmax")(hidden))


def arrays(samples, stream):
    image = stream.normal(size=(samples, FEATURES)).astype("float32")
    words = stream.randint(1, WORDS, (samples, STEPS)).astype("int32")
    words[::3, 4:] = 0
    return {"x.0": image, "x.1": words, "y": words[:, 0]}
