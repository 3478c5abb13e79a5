"""Recurrent layers of a standard shape over synthetic features, for timing only.
Source of the shape: Braun 2018, "LSTM Benchmarks for Deep Learning Frameworks",
arXiv:1806.01818: 1 × 320 units, 123 features, 10 classes.

The paper's inputs are noise. Here each class adds a weak pattern, so that the loss of a run shows
whether it trains; the arithmetic is the same.
"""

import numpy

CLASSES = 10
PATTERN = 0.1


def prepare(source, config):
    """x (samples, sequence, features) float32, standard normal noise plus 0.1 times the pattern of
    the class at every step; y (samples,) int64, classes equally likely. They depend on
    ``model.data_seed`` only: runs of all seeds see the same samples."""
    model = config["model"]
    stream = numpy.random.RandomState(model["data_seed"])
    features = model["features"]
    patterns = stream.standard_normal((CLASSES, features)).astype("float32")
    arrays = {}
    for name in ("train", "val"):
        samples = model[name + "_samples"]
        labels = stream.randint(0, CLASSES, samples).astype("int64")
        x = numpy.empty((samples, model["sequence"], features), "float32")
        for row, label in zip(x, labels):
            row[:] = stream.standard_normal(row.shape)
            row += PATTERN * patterns[label]
        arrays["x_" + name] = x
        arrays["y_" + name] = labels
    return arrays


def build(keras, recurrent, config):
    """RNN → softmax over 10 classes. ``model.layers`` (default 1) and ``model.bidirectional``
    (default false) make the RNN a stack."""
    model = config["model"]
    inputs = keras.layers.Input(shape=(model["sequence"], model["features"]))
    rnn = recurrent.stack(
        model["units"],
        layers=model.get("layers", 1),
        bidirectional=model.get("bidirectional", False),
        recurrent_dropout=model["recurrent_dropout"],
    )
    outputs = keras.layers.Dense(CLASSES, activation="softmax")(rnn(inputs))
    return keras.models.Model(inputs, outputs)
