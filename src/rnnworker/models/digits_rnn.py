"""An RNN over the rows of 8 × 8 handwritten digits, one row per time step."""


def prepare(source, config):
    """``digits.npz`` unchanged: x (samples, 8, 8) float32 in 0–1, y (samples,) int64."""
    return source


def build(keras, recurrent, config):
    """RNN → the probabilities of 10 classes."""
    inputs = keras.layers.Input(shape=(8, 8))
    hidden = recurrent(config["model"]["units"])(inputs)
    outputs = keras.layers.Dense(10, activation="softmax")(hidden)
    return keras.models.Model(inputs, outputs)
