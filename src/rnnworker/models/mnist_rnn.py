"""Two recurrent layers over the rows of MNIST's images.
Source: github.com/ASH1998/mnist-CuDNNLSTM, the comparison of K80 and P100."""

from rnnworker.readers import images


def prepare(source, config):
    """Images as ``model.sequence`` time steps: x (samples, sequence, 784 / sequence) float32 in
    0–1, y (samples,) int64. With 28 steps, each row of an image is one step."""
    return images.labelled(source, _shape(config))


def build(keras, recurrent, config):
    """RNN over all steps, dropout, RNN, dropout, dense, dropout, softmax over 10 classes.

    The published LSTM had relu in place of tanh, but its cuDNN version had tanh; here both are
    the cell that ``cell`` names."""
    layers = keras.layers
    model = config["model"]
    units = model["units"]
    inner = model["recurrent_dropout"]
    first, second, third = model["dropout"]

    inputs = layers.Input(shape=_shape(config))
    hidden = recurrent(units, return_sequences=True, recurrent_dropout=inner)(inputs)
    hidden = layers.Dropout(first)(hidden)
    hidden = recurrent(units, recurrent_dropout=inner)(hidden)
    hidden = layers.Dropout(second)(hidden)

    hidden = layers.Dense(model["dense"], activation="relu")(hidden)
    hidden = layers.Dropout(third)(hidden)
    outputs = layers.Dense(10, activation="softmax")(hidden)
    return keras.models.Model(inputs, outputs)


def _shape(config):
    """(time steps, pixels in each step) of an image. Raises ValueError if they do not divide it."""
    steps = config["model"]["sequence"]
    pixels = images.MNIST_SIDE**2
    if pixels % steps:
        raise ValueError("model.sequence={} does not divide the 784 pixels".format(steps))
    return (steps, pixels // steps)
