"""``model=benchmarks/plain/digits.yaml``: digits_rnn on part of its data, trained in turns."""

import os

from rnnworker.user_functions import function

TURNS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "turns.py:turns")


def prepare(source, config):
    samples = config["model"]["train_samples"]
    part = {name: source[name][:samples] for name in ("x_train", "y_train")}
    few = {name: source[name][:16] for name in ("x_val", "y_val")}
    return dict(source, **part, **few)


def build(keras, recurrent, config):
    inputs = keras.layers.Input(shape=(8, 8))
    hidden = recurrent(config["model"]["units"])(inputs)
    outputs = keras.layers.Dense(10, activation="softmax")(hidden)
    model = keras.models.Model(inputs, outputs)
    fit = model.fit

    def in_turns(*feed, **settings):
        """Trains in turns, except during the warm-up, which is one epoch, and the lead-in."""
        if settings["epochs"] > 1:
            lead_in = settings["epochs"] - config["model"]["epochs"]
            callback = function(TURNS)(keras, os.environ["BY_SCRIPT_TURNS"], lead_in)
            settings["callbacks"] = [callback] + settings["callbacks"]
        return fit(*feed, **settings)

    model.fit = in_turns
    return model
