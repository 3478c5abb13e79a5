"""How a model's function is called, and what its layers may ask for."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from rnnworker import user_functions
from tests.worker.building import answer_of, certificate_job

MODELS = """
from keras import Sequential, layers


def model(*parts):
    return Sequential([layers.Input((12,)), layers.Reshape((4, 3)), *parts, layers.Dense(1)])


def nothing():
    return model(layers.LSTM(2))


def own_default(bidirectional=False):
    assert bidirectional is False, "not its own default"
    return model(layers.LSTM(2))


def optional_config(keras, config=None):
    return model(keras.layers.LSTM(config["model"]["batch"]))


def backwards():
    return model(layers.Bidirectional(layers.LSTM(2, go_backwards=True)))


def other_units():
    return model(layers.Bidirectional(layers.LSTM(2), backward_layer=layers.LSTM(3, go_backwards=True)))


def other_direction():
    return model(layers.Bidirectional(layers.LSTM(2), backward_layer=layers.LSTM(2)))


def own_backward():
    return model(layers.Bidirectional(layers.LSTM(2), backward_layer=layers.LSTM(2, go_backwards=True)))


def merged():
    return model(layers.Bidirectional(layers.LSTM(2), merge_mode="max"))


def derived():
    class Mine(layers.LSTM):
        pass

    return model(Mine(2))
"""  # noqa: E501
# Function → what a refusal says, None if it is built; for `keras`, then for `block`.
ONE_DIRECTION = r"mine.py, line \d+: go_backwards is for a layer in one direction"
ONLY_DIRECTION = r"mine.py, line \d+: backward_layer must differ from the other one in go_backwards"
EXPECTED = {
    "nothing": (None, None),
    "own_default": (None, None),
    "optional_config": (None, None),
    "backwards": (ONE_DIRECTION, ONE_DIRECTION),
    "other_units": (ONLY_DIRECTION, ONLY_DIRECTION),
    "other_direction": (ONLY_DIRECTION, ONLY_DIRECTION),
    "own_backward": (None, None),
    "merged": ("Invalid merge mode", r"mine.py, line \d+: rnn=block: Bidirectional has no merge_m"),
    "derived": (r"mine.py, line \d+: no implementation can stand for the class Mine",) * 2,
}
SCRIPT = """
import json, sys
import numpy
from rnnworker import certify, user_functions

job, functions = json.loads(sys.argv[1]), json.loads(sys.argv[2])
arrays = {name: numpy.zeros((32,) + ((12,) if name[0] == "x" else (1,)), "float32")
          for name in ("x_train", "y_train", "x_val", "y_val")}
found = {}
for name in functions:
    job["config"]["model"]["function"] = functions[name]
    found[name] = []
    for rnn in ("keras", "block"):
        try:
            trial = certify.Trial(job, {"implementation": rnn, "name": rnn}, arrays)
            trial.session.load_weights(trial.weights)
            found[name].append([None, trial.session.attest()["found"]])
        except Exception as error:
            found[name].append([user_functions.one_line(error), None])
print(json.dumps(found))
"""


def test_the_function_of_a_model_gets_what_it_asks_for_and_each_layer_is_honoured_or_refused(
    tmp_path: Path, tmp_path_factory
) -> None:
    (tmp_path / "mine.py").write_text(MODELS)
    job = certificate_job("keras3_tensorflow", "of_model", {})
    training = {"loss": "mse", "optimizer": {"name": "sgd"}, "batch": 16, "data": {"prepare": ""}}
    job["config"]["model"] = training
    functions = {name: f"{tmp_path}/mine.py:{name}" for name in EXPECTED}
    arguments = (SCRIPT, json.dumps(job), json.dumps(functions))
    found = answer_of("current", *arguments, temporary=tmp_path_factory)
    for name, expected in EXPECTED.items():
        for (said, kernels), pattern, rnn in zip(
            found[name], expected, ("while", "block"), strict=True
        ):
            if pattern is None:
                assert (said, kernels) == (None, [rnn]), (name, said, kernels)
            else:
                assert re.search(pattern, str(said)), (name, said)


FROZEN = """
import json
import keras
from rnnworker.recurrent import Recurrent, stand_ins


def frozen(layer):
    layer.trainable = False
    return layer


def models():
    yield keras.layers.LSTM(2, trainable=False)
    yield keras.layers.Bidirectional(frozen(keras.layers.LSTM(2)))
    yield keras.layers.Bidirectional(keras.layers.LSTM(2, trainable=False))


found = {}
for rnn in ("keras", "cell", "block"):
    config = {"rnn": {"implementation": rnn}, "cell": {"name": "of_model"}}
    config["build"] = {"framework": "keras3_tensorflow"}
    with stand_ins.standing_in(keras, Recurrent(keras, config)):
        inputs = keras.Input((4, 3))
        built = [keras.Model(inputs, layer(inputs)) for layer in models()]
    found[rnn] = [len(model.trainable_weights) for model in built]
print(json.dumps(found))
"""


def test_a_layer_that_is_frozen_has_no_weights_that_are_trained(tmp_path_factory) -> None:
    """As in Keras, both directions of a frozen layer are frozen."""
    found = answer_of("current", FROZEN, temporary=tmp_path_factory)
    assert found == {"keras": [0, 0, 0], "cell": [0, 0, 0], "block": [0, 0, 0]}


def build(keras, recurrent, config): ...


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (build, (3, [])),
        (lambda: None, (0, [])),
        (lambda keras, config=None, units=3: None, (1, ["config", "units"])),
        (lambda *arguments: None, (None, [])),
        (lambda keras, *, config=None, **others: None, (1, ["config"])),
    ],
)
def test_the_arguments_that_a_function_needs(function, expected: tuple) -> None:
    assert user_functions.needed(function) == expected
