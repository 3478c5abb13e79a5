"""The next character of a text. Source: Keras's example ``lstm_text_generation.py``."""

import numpy

from rnnworker import data


def prepare(source, config):
    """Windows of ``model.sequence`` characters that begin every ``model.step`` characters, each
    with the character that follows.

    The example trains on the whole text and does not validate. Here the last ``model.held_out``
    of the text is for validation, so that training and validation windows share no character.

    **Returns:** x (windows, sequence, characters) bool, one-hot; y (windows,) int64.
    """
    model = config["model"]
    text = data.text(source).lower()
    alphabet = sorted(set(text))
    if len(alphabet) != model["characters"]:
        fault = "the text has {0} different characters: write model.characters={0}"
        raise ValueError(fault.format(len(alphabet)))
    code = {character: index for index, character in enumerate(alphabet)}
    codes = numpy.array([code[character] for character in text])
    share = 1.0 - model["held_out"]
    cut = round(len(codes) * share)
    x_train, y_train = _windows(codes[:cut], model, model["train_samples"])
    x_val, y_val = _windows(codes[cut:], model, model["val_samples"])
    return {
        "x_train": x_train,
        "y_train": y_train,
        "x_val": x_val,
        "y_val": y_val,
    }


def build(keras, recurrent, config):
    """One-hot characters → RNN → softmax over the characters."""
    model = config["model"]
    inputs = keras.layers.Input(shape=(model["sequence"], model["characters"]))
    rnn = recurrent(model["units"], recurrent_dropout=model["recurrent_dropout"])
    outputs = keras.layers.Dense(model["characters"], activation="softmax")(rnn(inputs))
    return keras.models.Model(inputs, outputs)


def _windows(codes, model, limit):
    length = model["sequence"]
    starts = numpy.arange(0, len(codes) - length, model["step"])[:limit]
    positions = starts[:, None] + numpy.arange(length)
    one_hot = numpy.eye(model["characters"], dtype=bool)
    following = codes[starts + length]
    return one_hot[codes[positions]], following.astype("int64")
