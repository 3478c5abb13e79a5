"""Sequences of different lengths, padded with zeros that are masked."""

STEPS = 8


def build(keras):
    layers = keras.layers
    return keras.models.Sequential(
        [
            layers.Input(shape=(STEPS, 3)),
            layers.Masking(),
            layers.GRU(5, return_sequences=True),
            layers.GRU(4),
            layers.Dense(1),
        ]
    )


def arrays(samples, stream):
    x = stream.normal(size=(samples, STEPS, 3)).astype("float32")
    x[::2, 5:] = 0.0
    return {"x": x, "y": x.sum((1, 2))[:, None]}
