"""The next character of a text. Source: Keras's example ``lstm_text_generation.py``."""

import numpy

from rnnworker import data


def prepare(source, config):
    """Windows of ``model.sequence`` characters that begin every ``model.step`` characters, each
    with the character that follows. ``model.train_samples`` and ``model.val_samples`` limit their
    numbers. Raises ValueError if the text has other than ``model.characters`` characters.

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
    one_hot = numpy.eye(len(alphabet), dtype=bool)
    share = 1.0 - model["held_out"]
    cut = round(len(codes) * share)

    length = model["sequence"]
    arrays = {}
    for name, part in (("train", codes[:cut]), ("val", codes[cut:])):
        limit = model[name + "_samples"]
        starts = numpy.arange(0, len(part) - length, model["step"])
        starts = starts[:limit]
        positions = starts[:, None] + numpy.arange(length)
        following = part[starts + length]
        arrays["x_" + name] = one_hot[part[positions]]
        arrays["y_" + name] = following.astype("int64")
    return arrays


def build(keras, recurrent, config):
    """One-hot characters → RNN → softmax over the characters."""
    model = config["model"]
    characters = model["characters"]
    inputs = keras.layers.Input(shape=(model["sequence"], characters))
    rnn = recurrent(model["units"], recurrent_dropout=model["recurrent_dropout"])
    outputs = keras.layers.Dense(characters, activation="softmax")(rnn(inputs))
    return keras.models.Model(inputs, outputs)
