"""The size of a batch that the layers of a model see on TensorFlow 2 is the one that they see in a
plain ``fit``, ``evaluate`` or ``predict`` with arrays: where Keras knows it, its loop over the
timesteps is faster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.worker.building import answer_of, certificate_job, settings_of, write

MODEL = """
import numpy

SEEN = []


def prepare(source, config):
    rows = config["model"]["rows"]
    x = numpy.ones((rows, 5, 3), "float32")
    y = numpy.ones((rows, 1), "float32")
    return {"x_train": x, "y_train": y, "x_val": x, "y_val": y}


def build(keras):
    class Seen(keras.layers.Layer):
        def call(self, inputs):
            SEEN.append(inputs.shape[0])
            return inputs

    inputs = keras.layers.Input(shape=(5, 3))
    outputs = keras.layers.Dense(1)(keras.layers.LSTM(4)(Seen()(inputs)))
    model = keras.models.Model(inputs, outputs)
    model.compile("sgd", "mse")
    return model
"""
SCRIPT = """
import json, sys
from rnnworker import frameworks, user_functions

results = []
for config in json.loads(sys.argv[1]):
    file = config["model"]["function"].rpartition(":")[0]
    user_functions.forget()
    session = frameworks.open_session(config, 1)
    session.load_data(None)
    session.build()
    session.load_weights(session.dump_weights())
    seen = user_functions.function(file + ":SEEN")
    x, y = session.arrays["x_train"], session.arrays["y_train"]
    plain = user_functions.function(file + ":build")(session.keras)
    calls = {
        "fit": lambda: session.train_steps(2),
        "evaluate": session.evaluate,
        "predict": session.outputs,
        "plain fit": lambda: plain.fit(x, y, batch_size=32, verbose=0),
        "plain evaluate": lambda: plain.evaluate(x, y, batch_size=32, verbose=0),
        "plain predict": lambda: plain.predict(x, batch_size=32, verbose=0),
    }
    found = {}
    for name, call in calls.items():
        del seen[:]
        call()
        found[name] = seen[-1]
    results.append(found)
print(json.dumps(results))
"""


@pytest.mark.parametrize("build", ["current", "tf_2_15"])
def test_a_step_knows_the_size_of_its_batch_where_it_does_in_a_plain_fit(
    build: str, tmp_path: Path, tmp_path_factory
) -> None:
    write(tmp_path, {"mine.py": MODEL})
    config = certificate_job("", "of_model", {})["config"]
    config |= {"rnn": {"implementation": "keras"}, "build": settings_of(build)}
    configs = []
    for rows in (64, 60):
        model = {"function": f"{tmp_path}/mine.py:build", "batch": 32, "epochs": 1, "rows": rows}
        model["data"] = {"prepare": f"{tmp_path}/mine.py:prepare"}
        configs.append(dict(config, model=model))
    whole, partial = answer_of(build, SCRIPT, json.dumps(configs), temporary=tmp_path_factory)
    calls = ("fit", "evaluate", "predict")
    for found, size in ((whole, 32), (partial, None)):
        assert {name: found[name] for name in calls} == dict.fromkeys(calls, size)
        assert {name: found[f"plain {name}"] for name in calls} == dict.fromkeys(calls, size)
