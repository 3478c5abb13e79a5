"""The adding problem: remember two numbers over a long sequence and return their sum.
Source: Hochreiter & Schmidhuber 1997, "Long short-term memory", section 5.4.
"""

import numpy

MARKED, EDGE = 1.0, -1.0


def prepare(source, config):
    """x (samples, sequence, 2) float32, y (samples, 1) float32; see `sequences`. They depend on
    ``model.data_seed`` only: runs of all seeds see the same samples.

    The constant answer 0.5 has a mean squared error of 0.039 at 100 steps: 1/24, reduced by the
    sequences (about one in eight) whose first step is marked."""
    model = config["model"]
    stream = numpy.random.RandomState(model["data_seed"])
    arrays = {}
    for name in ("train", "val"):
        samples = model[name + "_samples"]
        x, y = sequences(samples, model["sequence"], stream)
        arrays["x_" + name] = x
        arrays["y_" + name] = y
    return arrays


def sequences(samples, length, stream):
    """Samples of the adding problem, `samples` of them with `length` steps, drawn from `stream`, a
    ``numpy.random.RandomState``. Raises ValueError if there are fewer than 6 steps.

    Each step has a value, uniform in −1…1, and a marker: 1 at two steps, −1 at the first and the
    last step, else 0. One of the first ten steps is marked, and another of the first
    ``length / 2 − 1``. The target is ``0.5 + (X1 + X2) / 4`` for the marked values X1 and X2; the
    value of the first step counts as 0 if it is marked.

    The paper draws each length from T to 1.1 T; here all lengths are equal, as cuDNN needs.

    **Returns:** x (samples, length, 2) float32, y (samples, 1) float32.
    """
    if length < 6:
        raise ValueError("model.sequence={}: the adding problem needs 6 steps".format(length))

    x = numpy.zeros((samples, length, 2), "float32")
    x[:, :, 0] = stream.uniform(-1.0, 1.0, (samples, length))
    half = length // 2 - 1
    first = stream.randint(0, min(10, half), samples)
    second = (first + stream.randint(1, half, samples)) % half

    rows = numpy.arange(samples)
    markers = x[:, :, 1]
    markers[:, 0] = EDGE
    markers[:, -1] = EDGE
    markers[rows, first] = MARKED
    markers[rows, second] = MARKED

    values = x[:, :, 0].copy()
    values[:, 0] = 0.0
    both = values[rows, first] + values[rows, second]
    target = 0.5 + both / 4.0
    return x, target.reshape(-1, 1).astype("float32")


def build(keras, recurrent, config):
    """RNN → a dense layer with one unit."""
    model = config["model"]
    inputs = keras.layers.Input(shape=(model["sequence"], 2))
    rnn = recurrent(model["units"], recurrent_dropout=model["recurrent_dropout"])
    outputs = keras.layers.Dense(1)(rnn(inputs))
    return keras.models.Model(inputs, outputs)
