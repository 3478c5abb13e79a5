"""One recurrent layer over synthetic sentences, which may be padded and masked."""

import numpy

PADDINGS = ("none", "right", "left")


def prepare(source, config):
    """x (samples, sequence) int32: word indices from 1, and 0 for the padding of shorter sentences;
    y (samples, 1) float32: whether more words come from the upper half of the indices. They depend
    on ``model.data_seed`` only. Without padding every sentence has its full length."""
    model = config["model"]
    if model["padding"] not in PADDINGS:
        message = "model.padding={} must be one of {}"
        raise ValueError(message.format(model["padding"], ", ".join(PADDINGS)))
    stream = numpy.random.RandomState(model["data_seed"])
    half, steps = model["words"] // 2, model["sequence"]
    arrays = {}
    for name in ("train", "val"):
        samples = model[name + "_samples"]
        labels = stream.randint(0, 2, samples)
        upper = stream.uniform(size=(samples, steps)) < (0.35 + 0.3 * labels)[:, None]
        x = (1 + stream.randint(0, half - 1, (samples, steps)) + half * upper).astype("int32")
        lengths = stream.randint(steps // 2, steps + 1, samples)
        if model["padding"] != "none":
            padded = numpy.arange(steps)[None, :] >= lengths[:, None]
            x[padded if model["padding"] == "right" else padded[:, ::-1]] = 0
        arrays["x_" + name], arrays["y_" + name] = x, labels.astype("float32").reshape(-1, 1)
    return arrays


def build(keras, recurrent, config):
    """Embedding with a mask for the padding → RNN → sigmoid."""
    layers, model = keras.layers, config["model"]
    inputs = layers.Input(shape=(model["sequence"],), dtype="int32")
    masked = model["padding"] != "none"
    vectors = layers.Embedding(model["words"], model["embedding"], mask_zero=masked)(inputs)
    hidden = recurrent(model["units"], recurrent_dropout=model["recurrent_dropout"])(vectors)
    outputs = layers.Dense(1, activation="sigmoid")(hidden)
    return keras.models.Model(inputs, outputs)
