"""Two dense layers with dropout on MNIST. Source: Keras's example ``mnist_mlp.py``."""

from rnnworker.readers import images

PIXELS = images.MNIST_SIDE**2


def prepare(source, config):
    """Images as rows: x (samples, 784) float32 in 0–1, y (samples,) int64."""
    return images.labelled(source, (PIXELS,))


def build(keras, recurrent, config):
    """(784) → Dense, dropout, Dense, dropout → softmax over 10 classes."""
    model = config["model"]
    inputs = hidden = keras.layers.Input(shape=(PIXELS,))
    for _ in range(2):
        hidden = keras.layers.Dense(model["units"], activation="relu")(hidden)
        hidden = keras.layers.Dropout(model["dropout"])(hidden)
    outputs = keras.layers.Dense(10, activation="softmax")(hidden)
    return keras.models.Model(inputs, outputs)
