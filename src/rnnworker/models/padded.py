"""One recurrent layer over synthetic sentences, which may be padded and masked."""

import numpy

PADDINGS = ("none", "right", "left")


def prepare(source, config):
    """Sentences of random words, of which a class prefers one half.

    The data depend on ``model.data_seed`` and on the settings of their shapes only. Sentences have
    between half of ``model.sequence`` words and all of them; with ``model.padding=none`` each has
    its full length. Raises ValueError if the padding is unknown.

    **Returns:** x (samples, sequence) int32, word indices from 1, and 0 for the padding of shorter
    sentences; y (samples, 1) float32, 1 if more words come from the upper half of the indices.
    """
    model = config["model"]
    padding = model["padding"]
    if padding not in PADDINGS:
        fault = "model.padding={} must be one of {}"
        known = ", ".join(PADDINGS)
        raise ValueError(fault.format(padding, known))

    stream = numpy.random.RandomState(model["data_seed"])
    half = model["words"] // 2
    steps = model["sequence"]
    arrays = {}
    for name in ("train", "val"):
        samples = model[name + "_samples"]
        shape = (samples, steps)
        labels = stream.randint(0, 2, (samples, 1))
        share = 0.35 + 0.3 * labels  # of words from the upper half
        is_upper = stream.uniform(size=shape) < share
        words = stream.randint(1, half, shape)
        words += half * is_upper

        lengths = stream.randint(steps // 2, steps + 1, (samples, 1))
        is_padding = numpy.arange(steps) >= lengths
        if padding == "left":
            is_padding = is_padding[:, ::-1]
        if padding != "none":
            words[is_padding] = 0

        arrays["x_" + name] = words.astype("int32")
        arrays["y_" + name] = labels.astype("float32")
    return arrays


def build(keras, recurrent, config):
    """Embedding with a mask for the padding → RNN → sigmoid."""
    layers = keras.layers
    model = config["model"]
    inputs = layers.Input(shape=(model["sequence"],), dtype="int32")
    masked = model["padding"] != "none"
    embedding = layers.Embedding(
        model["words"],
        model["embedding"],
        mask_zero=masked,
    )
    vectors = embedding(inputs)
    rnn = recurrent(model["units"], recurrent_dropout=model["recurrent_dropout"])
    classifier = layers.Dense(1, activation="sigmoid")
    outputs = classifier(rnn(vectors))
    return keras.models.Model(inputs, outputs)
