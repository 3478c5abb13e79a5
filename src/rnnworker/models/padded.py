"""One recurrent layer over synthetic sentences, which may be padded and masked."""

import numpy

PADDINGS = ("none", "right", "left")


def prepare(source, config):
    """x (samples, sequence) int32: word indices from 1, and 0 for the padding of shorter sentences;
    y (samples, 1) float32: whether more words come from the upper half of the indices. They depend
    on ``model.data_seed`` only. Without padding every sentence has its full length."""
    model = config["model"]
    padding = model["padding"]
    if padding not in PADDINGS:
        message = "model.padding={} must be one of {}"
        raise ValueError(message.format(padding, ", ".join(PADDINGS)))
    stream = numpy.random.RandomState(model["data_seed"])
    half = model["words"] // 2
    steps = model["sequence"]
    arrays = {}
    for name in ("train", "val"):
        samples = model[name + "_samples"]
        shape = (samples, steps)
        labels = stream.randint(0, 2, samples)
        share = 0.35 + 0.3 * labels  # of words from the upper half
        is_upper = stream.uniform(size=shape) < share[:, None]
        x = 1 + stream.randint(0, half - 1, shape)
        x = (x + half * is_upper).astype("int32")
        lengths = stream.randint(steps // 2, steps + 1, samples)
        is_padding = numpy.arange(steps) >= lengths[:, None]
        if padding == "left":
            is_padding = is_padding[:, ::-1]
        if padding != "none":
            x[is_padding] = 0
        arrays["x_" + name] = x
        arrays["y_" + name] = labels.astype("float32").reshape(-1, 1)
    return arrays


def build(keras, recurrent, config):
    """Embedding with a mask for the padding → RNN → sigmoid."""
    layers = keras.layers
    model = config["model"]
    inputs = layers.Input(shape=(model["sequence"],), dtype="int32")
    masked = model["padding"] != "none"
    embedding = layers.Embedding(model["words"], model["embedding"], mask_zero=masked)
    vectors = embedding(inputs)
    rnn = recurrent(model["units"], recurrent_dropout=model["recurrent_dropout"])
    outputs = layers.Dense(1, activation="sigmoid")(rnn(vectors))
    return keras.models.Model(inputs, outputs)
