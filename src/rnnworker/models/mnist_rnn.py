"""Two recurrent layers over the rows of MNIST's images.
Source: github.com/ASH1998/mnist-CuDNNLSTM, the comparison of K80 and P100."""

from rnnworker.readers import mnist


def prepare(source, config):
    """Images as ``model.sequence`` time steps: x (samples, sequence, 784 / sequence) float32 in
    0–1, y (samples,) int64. With 28 steps, each row of an image is one step."""
    arrays = mnist.images(source)
    for name in ("x_train", "x_val"):
        arrays[name] = arrays[name].reshape((len(arrays[name]),) + _shape(config))
    return arrays


def build(keras, recurrent, config):
    """RNN over all steps, dropout, RNN, dropout, dense, dropout, softmax over 10 classes.

    The published LSTM had relu in place of tanh, but its cuDNN version had tanh; here both are
    the cell that ``cell`` names."""
    layers, model = keras.layers, config["model"]
    first, second, third = model["dropout"]
    inner = {"recurrent_dropout": model["recurrent_dropout"]}
    inputs = layers.Input(shape=_shape(config))
    hidden = recurrent(model["units"], return_sequences=True, **inner)(inputs)
    hidden = recurrent(model["units"], **inner)(layers.Dropout(first)(hidden))
    hidden = layers.Dense(model["dense"], activation="relu")(layers.Dropout(second)(hidden))
    outputs = layers.Dense(10, activation="softmax")(layers.Dropout(third)(hidden))
    return keras.models.Model(inputs, outputs)


def _shape(config):
    steps = config["model"]["sequence"]
    if mnist.SIDE * mnist.SIDE % steps:
        raise ValueError("model.sequence={} does not divide the 784 pixels".format(steps))
    return (steps, mnist.SIDE * mnist.SIDE // steps)
