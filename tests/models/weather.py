"""Forecasts a temperature from a window of measurements: a regression."""

STEPS, FEATURES = 12, 3


def build(keras):
    layers = keras.layers
    inputs = layers.Input(shape=(STEPS, FEATURES))
    outputs = layers.Dense(1)(layers.LSTM(8)(inputs))
    model = keras.models.Model(inputs=inputs, outputs=outputs)
    model.compile(optimizer="rmsprop", loss="mse")
    return model


def arrays(samples, stream):
    x = stream.normal(size=(samples, STEPS, FEATURES)).astype("float32")
    return {"x": x, "y": x.mean((1, 2))[:, None]}
