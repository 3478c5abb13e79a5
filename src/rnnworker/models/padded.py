"""One recurrent layer over made-up sentences, which may be padded and masked."""

import numpy

PADDINGS = ("none", "right", "left")


def prepare(source, config):
    """x (samples, sequence) int32 word numbers from 1, 0 where a shorter sentence is padded; y
    (samples, 1) float32: whether the sentence takes its words rather from the upper half. Made of
    ``model.data_seed``. Without padding every sentence has its full length."""
    model = config["model"]
    if model["padding"] not in PADDINGS:
        words = "model.padding={} is none of {}"
        raise ValueError(words.format(model["padding"], ", ".join(PADDINGS)))
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
            place = numpy.arange(steps)[None, :]
            padded = place >= lengths[:, None]
            x[padded if model["padding"] == "right" else padded[:, ::-1]] = 0
        arrays["x_" + name], arrays["y_" + name] = x, labels.astype("float32").reshape(-1, 1)
    return arrays


def build(keras, recurrent, config):
    """Embedding, masked where it is padded → RNN → sigmoid."""
    layers, model = keras.layers, config["model"]
    inputs = layers.Input(shape=(model["sequence"],), dtype="int32")
    masked = model["padding"] != "none"
    vectors = layers.Embedding(model["words"], model["embedding"], mask_zero=masked)(inputs)
    hidden = recurrent(model["units"], recurrent_dropout=model["recurrent_dropout"])(vectors)
    outputs = layers.Dense(1, activation="sigmoid")(hidden)
    return keras.models.Model(inputs, outputs)
