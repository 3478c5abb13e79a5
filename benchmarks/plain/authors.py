"""Models as their authors would write them, and made-up data of their shapes."""

import keras
import numpy
from keras import layers

SAMPLES = {"train": 1024, "val": 128}


def frozen() -> keras.Model:
    """Layers frozen by their class, then fine-tuned."""
    model = keras.Sequential(
        [
            layers.Input((60, 16)),
            layers.LSTM(64, return_sequences=True),
            layers.LSTM(64),
            layers.Dense(1),
        ]
    )
    for layer in model.layers[:1]:
        if isinstance(layer, layers.LSTM):
            layer.trainable = False
    model.compile(optimizer=keras.optimizers.Adam(1e-4, clipnorm=1.0), loss="mse")
    return model


def directions() -> keras.Model:
    model = keras.Sequential(
        [
            layers.Input((60, 16)),
            layers.Bidirectional(layers.LSTM(32, return_sequences=True)),
            layers.LSTM(32),
            layers.Dense(1),
        ]
    )
    model.compile(optimizer="adam", loss="mse")
    return model


def translation() -> keras.Model:
    """An encoder and a decoder that begins with its states."""
    encoded = layers.Input((60, 16))
    decoded = layers.Input((40, 8))
    _, h, c = layers.LSTM(48, return_state=True)(encoded)
    hidden = layers.LSTM(48, return_sequences=True)(decoded, [h, c])
    model = keras.Model([encoded, decoded], layers.Dense(1)(hidden))
    model.compile(optimizer="rmsprop", loss="mse")
    return model


def arrays(name: str) -> dict[str, numpy.ndarray]:
    """x_train, y_train, x_val and y_val of a model; x_train.0 and x_train.1 of two inputs."""
    stream = numpy.random.RandomState(0)
    found = {}
    for part, samples in SAMPLES.items():
        x = stream.normal(size=(samples, 60, 16)).astype("float32")
        if name == "translation":
            decoded = stream.normal(size=(samples, 40, 8)).astype("float32")
            found[f"x_{part}.0"] = x
            found[f"x_{part}.1"] = decoded
            found[f"y_{part}"] = decoded[:, :, :1]
        else:
            found[f"x_{part}"] = x
            found[f"y_{part}"] = x[:, :, 0].sum(1, keepdims=True)
    return found
