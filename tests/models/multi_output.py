"""A class and a value from one sequence; the shared layer reads both inputs. Large values are
penalized, with a loss that the layer itself adds."""

CLASSES = 3


def build(keras):
    layers = keras.layers
    first = layers.Input(shape=(6, 2), name="first")
    second = layers.Input(shape=(9, 2), name="second")
    shared = layers.LSTM(5)
    both = layers.concatenate([shared(first), shared(second)])
    kind = layers.Dense(CLASSES, activation="softmax", name="kind")(both)
    value = layers.Dense(1, activity_regularizer="l2", name="value")(both)
    model = keras.models.Model([first, second], [kind, value])
    model.compile("adam", loss=["sparse_categorical_crossentropy", "mse"])
    return model


def arrays(samples, stream):
    first = stream.normal(size=(samples, 6, 2)).astype("float32")
    second = stream.normal(size=(samples, 9, 2)).astype("float32")
    kind = stream.randint(0, CLASSES, (samples, 1))
    return {"x.0": first, "x.1": second, "y.0": kind, "y.1": first.sum((1, 2))[:, None]}
