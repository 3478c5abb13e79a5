"""Two dense layers with dropout on MNIST. Source: Keras's example ``mnist_mlp.py``."""

from rnnworker.readers import mnist


def prepare(source, config):
    """Images as rows: x (samples, 784) float32 in 0–1, y (samples,) int64."""
    arrays = mnist.images(source)
    for name in ("x_train", "x_val"):
        arrays[name] = arrays[name].reshape(len(arrays[name]), -1)
    return arrays


def build(keras, recurrent, config):
    """(784) → Dense, dropout, Dense, dropout → softmax over 10 classes."""
    model = config["model"]
    inputs = hidden = keras.layers.Input(shape=(mnist.SIDE * mnist.SIDE,))
    for _ in range(2):
        hidden = keras.layers.Dense(model["units"], activation="relu")(hidden)
        hidden = keras.layers.Dropout(model["dropout"])(hidden)
    outputs = keras.layers.Dense(10, activation="softmax")(hidden)
    return keras.models.Model(inputs, outputs)
