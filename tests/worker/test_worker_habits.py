"""Habits of authors that only a certificate meets: it compiles a model anew, loads weights, asks
layer by layer. Each model of `tests/models/in_place/ordinary.py` here is certified, or refused with
its line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy
import pytest

from rnnworker.precision import TOLERANCE
from tests.conftest import ROOT
from tests.worker.building import ALL_CERTIFICATES, answer_of, certificate_job, equal, write

MODELS = ROOT / "tests" / "models" / "in_place" / "ordinary.py"
OF_KERAS = ("keras", "unrolled")
# Model → what its implementations are asked: all that are not `REFUSED` have to be certified.
ASKED = {
    "own_compile": ("keras", "block"),
    "two_layers_of_one_name": ("keras", "block"),
    "own_call": (*OF_KERAS, "block"),
    "own_cell": (*OF_KERAS, "block"),
    "one_cell_in_two_loops": (*OF_KERAS, "block"),
    "never_called": (*OF_KERAS, "block"),
    "stack_of_cells": (*OF_KERAS, "block"),
    "unrolled_stack_of_cells": ("keras", "block"),
    "hidden_from_keras": ("keras",),
    "own_tanh": ("block",),
    "output_without_targets": ("keras", "block"),
    "in_half_precision": ("keras",),
    "compiled_for_debugging": ("keras",),
}
REFUSED = {
    ("own_call", "block"): "layer doubled: block cannot stand for Doubled.call",
    ("own_cell", "block"): "layer rnn: block cannot stand for Normalized.call",
    ("stack_of_cells", "block"): "layer rnn: block computes LSTM only, not StackedRNNCells",
    ("unrolled_stack_of_cells", "keras"): "a model cannot set unroll=True: write rnn=unrolled",
    ("unrolled_stack_of_cells", "block"): "a model cannot set unroll=True: write rnn=unrolled",
    ("compiled_for_debugging", "keras"): (
        "build compiles its model with run_eagerly=True: each build compiles its steps"
    ),
    ("in_half_precision", "keras"): (
        "the layer lstm computes in bfloat16, and this run in float32: write precision="
    ),
    ("own_tanh", "block"): (
        "layer lstm: block computes activation=tanh only, not another function called tanh"
    ),
    ("hidden_from_keras", "keras"): "the layer lstm is not part of the model, and not trained",
}
# Model → why the layers cannot be compared with the reference.
NO_REFERENCE = {
    "own_call": "the float64 reference has no Doubled.call, which is not Keras's",
    "own_cell": "the float64 reference has no Normalized.call, which is not Keras's",
}


def job_of(name: str, folder: Path) -> dict[str, Any]:
    choices = {each: {"implementation": each, "name": each} for each in ASKED[name]}
    job = certificate_job("keras3_tensorflow", "of_model", choices)
    job["config"]["model"] = {
        "function": f"{MODELS}:{name}",
        "data": {"prepare": "rnnworker.readers.given:prepare"},
        "batch": 16,
        "epochs": 1,
    }
    data = "named" if name == "output_without_targets" else "data"
    return {**job, "dataset": str(folder / f"{data}.npz")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the data of all models."""
    folder = tmp_path_factory.mktemp("habits")
    stream = numpy.random.RandomState(0)
    x = stream.normal(size=(32, 3, 3)).astype("float32")
    arrays = {"x_train": x, "y_train": x.sum((1, 2))[:, None]}
    arrays |= {"x_val": x, "y_val": arrays["y_train"]}
    numpy.savez(folder / "data.npz", **arrays)
    named = {name + (".y" if name[0] == "y" else ""): array for name, array in arrays.items()}
    numpy.savez(folder / "named.npz", **named)
    return folder


@pytest.fixture(scope="module")
def certificates(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    jobs = json.dumps([job_of(name, folder) for name in ASKED])
    made = answer_of("current", ALL_CERTIFICATES, jobs, temporary=tmp_path_factory)
    return dict(zip(ASKED, made, strict=True))


@pytest.mark.parametrize("name", ASKED)
def test_a_model_is_certified_or_its_line_is_refused(
    name: str, certificates: dict[str, Any]
) -> None:
    for implementation, result in certificates[name]["implementations"].items():
        refused = REFUSED.get((name, implementation))
        if refused is not None:
            assert result["status"] == "refused", result
            assert re.fullmatch(rf"{MODELS}, line \d+: {refused}.*", result["why"]), result["why"]
            continue
        assert result["status"] == "certified", (implementation, result["why"])
        if name in NO_REFERENCE:
            assert result["no_reference"] == NO_REFERENCE[name]
        else:
            assert result["no_reference"] is None
            for part in ("outputs", "gradients"):
                if result["kernel"]:
                    assert result[part] <= TOLERANCE["float32"][part], (implementation, part)
        steps = result["applied"]["cpu_1"]
        assert (steps["off"], steps["why"]) == (0, None), (implementation, steps)
    assert all(map(equal, certificates[name]["pairs"])), certificates[name]["pairs"]


FACTS = """
import json, sys
from rnnworker import frameworks

config, file = json.loads(sys.argv[1]), sys.argv[2]
model = dict(config["model"], function=file + ":build")
rnn = {"implementation": "keras"}
session = frameworks.open_session(dict(config, model=model, rnn=rnn), 1)
session.load_data(sys.argv[3])
session.build()
print(json.dumps(session.model_facts(session.layers())["optimizer"]))
"""
WITH_SCHEDULE = """
import keras
from keras import layers, ops


class Warming(keras.optimizers.schedules.LearningRateSchedule):
    def __call__(self, step):
        return 0.01 * ops.minimum(1.0, ops.cast(step, "float32") / 100)


def build():
    model = keras.Sequential([layers.Input((3, 3)), layers.LSTM(4), layers.Dense(1)])
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(Warming()))
    model.compile(optimizer, "mse")
    return model
"""


def test_a_schedule_that_does_not_state_its_settings_is_named(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    write(folder, {"with_schedule.py": WITH_SCHEDULE})
    config = json.dumps(job_of("own_cell", folder)["config"])
    arguments = (config, folder / "with_schedule.py", folder / "data.npz")
    said = answer_of("current", FACTS, *arguments, temporary=tmp_path_factory)
    assert said == {
        "class_name": "LossScaleOptimizer",
        "learning_rate": {"class_name": "Warming"},
    }


TRAINED_IN_BUILD = """
import keras
import numpy
from keras import layers


def build():
    model = keras.Sequential([layers.Input((3, 3)), layers.LSTM(4), layers.Dense(1)])
    model.compile("adam", "mse")
    model.fit(numpy.ones((8, 3, 3)), numpy.ones((8, 1)), epochs=3, verbose=0)
    return model
"""
STEPS_TAKEN = """
import json, sys
from rnnworker import frameworks

config, file = json.loads(sys.argv[1]), sys.argv[2]
model = dict(config["model"], function=file + ":build")
rnn = {"implementation": "keras"}
taken = []
for optimizer in (None, {"name": "sgd"}):
    own = dict(config, model=model, rnn=rnn, certifying_optimizer=optimizer)
    session = frameworks.open_session(own, 1)
    session.load_data(sys.argv[3])
    session.build()
    taken.append(int(session.model.optimizer.iterations.numpy()))
session.compile()
taken.append(int(session.model.optimizer.iterations.numpy()))
print(json.dumps(taken))
"""


def test_an_optimizer_by_name_goes_on_where_build_has_left_it(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    write(folder, {"trained_in_build.py": TRAINED_IN_BUILD})
    config = json.dumps(job_of("own_cell", folder)["config"])
    arguments = (config, folder / "trained_in_build.py", folder / "data.npz")
    taken = answer_of("current", STEPS_TAKEN, *arguments, temporary=tmp_path_factory)
    assert taken == [3, 0, 3], "as timed; certified with another one; with its own again"


# Keras knows neither a variable of TensorFlow nor an optimizer inside another object.
OF_ITS_OWN = """
import keras
import tensorflow
from keras import layers


class Accumulating(keras.Model):
    def __init__(self, steps, *parts):
        super().__init__(*parts)
        self.steps = steps
        self.done = tensorflow.Variable(0, trainable=False)
        self.sums = [
            tensorflow.Variable(tensorflow.zeros(each.shape), trainable=False)
            for each in self.trainable_variables
        ]

    def train_step(self, data):
        x, y = data
        with tensorflow.GradientTape() as tape:
            loss = self.compute_loss(x=x, y=y, y_pred=self(x, training=True))
        for total, each in zip(self.sums, tape.gradient(loss, self.trainable_variables)):
            total.assign_add(each)
        self.done.assign_add(1)
        tensorflow.cond(self.done % self.steps == 0, self.apply, lambda: None)
        return {"loss": loss}

    def apply(self):
        self.optimizer.apply_gradients(zip(self.sums, self.trainable_variables))
        for total in self.sums:
            total.assign(tensorflow.zeros_like(total))


def accumulating():
    inputs = layers.Input((3, 3))
    model = Accumulating(4, inputs, layers.Dense(1)(layers.LSTM(4)(inputs)))
    model.compile(keras.optimizers.SGD(0.01), "mse")
    return model


class InTwoParts(keras.optimizers.SGD):
    def build(self, variables):
        super().build(variables)
        self.first, self.second = variables[:3], variables[3:]
        self.slow = keras.optimizers.SGD(0.01, momentum=0.9)
        self.fast = keras.optimizers.SGD(0.1, momentum=0.9)
        self.slow.build(self.first)
        self.fast.build(self.second)

    def apply(self, gradients, variables=None):
        self.slow.apply(gradients[:3], self.first)
        self.fast.apply(gradients[3:], self.second)


def in_two_parts():
    parts = [layers.Input((3, 3)), layers.LSTM(4), layers.Dense(1)]
    model = keras.Sequential(parts)
    model.compile(InTwoParts(), "mse")
    return model


class Alternating(keras.Model):
    def __init__(self, *parts):
        super().__init__(*parts)
        self.optimizers = {"first": keras.optimizers.Adam(), "second": keras.optimizers.SGD()}


def two_optimizers():
    inputs = layers.Input((3, 3))
    model = Alternating(inputs, layers.Dense(1)(layers.LSTM(4)(inputs)))
    model.compile("sgd", "mse")
    return model
"""
AGAIN = """
import json, sys
from rnnworker import frameworks, user_functions

config, file = json.loads(sys.argv[1]), sys.argv[2]
found = {}
for name in json.loads(sys.argv[3]):
    model = dict(config["model"], function=file + ":" + name)
    user_functions.forget()
    rnn = {"implementation": "keras"}
    session = frameworks.open_session(dict(config, model=model, rnn=rnn), 1)
    try:
        session.load_data(sys.argv[4])
        session.build()
    except ValueError as error:
        found[name] = user_functions.one_line(error)
        continue
    session.load_weights(session.dump_weights())
    trained = []
    for steps in (5, 5):
        session.reset()
        session.train_steps(steps)
        trained.append([array.tolist() for array in session.model.get_weights()])
    session.reset()
    trained.append([array.tolist() for array in session.model.get_weights()])
    found[name] = [trained[0] == trained[1], trained[0] == trained[2]]
print(json.dumps(found))
"""


def test_each_training_begins_anew_with_what_only_tensorflow_knows_or_is_refused(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    write(folder, {"of_its_own.py": OF_ITS_OWN})
    names = ["accumulating", "in_two_parts", "two_optimizers"]
    config = json.dumps(job_of("own_cell", folder)["config"])
    file = folder / "of_its_own.py"
    arguments = (config, file, json.dumps(names), folder / "data.npz")
    found = answer_of("current", AGAIN, *arguments, temporary=tmp_path_factory)
    refused = found.pop("two_optimizers")
    assert "the model has an optimizer of its own, optimizers: only that of compile" in refused
    for name, (is_same_again, trained_nothing) in found.items():
        assert is_same_again, name
        assert not trained_nothing, name
