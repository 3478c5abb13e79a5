"""Habits of authors that only a certificate meets: it compiles a model anew, loads weights, asks
layer by layer. Each model of `tests/models/in_place/ordinary.py` here is certified, or refused with
its line."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy
import pytest

from rnnworker.precision import TOLERANCE
from tests.conftest import ROOT
from tests.worker.building import (
    ALL_CERTIFICATES,
    CERTIFY,
    answer_of,
    certificate_job,
    equal,
    settings_of,
    write,
)

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
    "activation_with_weights": (*OF_KERAS, "block"),
    "goes_on_with_the_cell": (*OF_KERAS, "block"),
    "own_loop": ("keras", "block"),
    "sets_its_weights": ("keras", "block"),
    "own_loss": ("keras", "block"),
    "computed_weights": ("keras", "block"),
    "noise_of_numpy": ("keras", "block"),
    "loop_around_an_own_cell": ("block",),
    "compiled_for_debugging": ("keras",),
    "without_influence_on_the_loss": ("keras", "block"),
    "given_weights": (*OF_KERAS, "block"),
    "peepholes": (*OF_KERAS, "block"),
    "further_weight": ("keras", "block"),
    "without_training_argument": ("keras", "block"),
    "derived_bidirectional": ("keras", "block"),
    "toggled": ("keras", "block"),
    "called_cell": (*OF_KERAS, "block"),
}
REFUSED = {
    ("own_call", "block"): "layer doubled: block cannot stand for Doubled.call",
    ("own_cell", "block"): "layer rnn: block cannot stand for Normalized.call",
    ("peepholes", "block"): "layer rnn: block cannot stand for Peephole._compute_carry_and_output",
    ("called_cell", "block"): "layer rnn: block cannot stand for Twice.__call__",
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
    (
        "activation_with_weights",
        "block",
    ): "layer lstm: block computes activation=tanh only, not PRe",
    ("own_loop", "keras"): "the model calls the cell lstm_cell in a loop of its own, which no impl",
    ("own_loop", "block"): "the model calls the cell lstm_cell in a loop of its own, which no impl",
    ("loop_around_an_own_cell", "block"): (
        "rnn=block cannot compute the cell Around, only those of LSTM, GRU and SimpleRNN"
    ),
    ("hidden_from_keras", "keras"): "the layer lstm is not part of the model, and not trained",
}
# Model → why the layers cannot be compared with the reference.
NO_REFERENCE = {
    "computed_weights": (
        "the float64 reference has no Scaled.recurrent_kernel, which is not Keras's"
    ),
    "given_weights": (
        "the float64 reference has no LSTMCell.recurrent_kernel, which is not Keras's"
    ),
    "activation_with_weights": (
        "the float64 reference has no activation PReLU, only elu, exponential, hard_sigmoid of "
        "Keras 2, hard_sigmoid of Keras 3, linear, relu, sigmoid, softplus, softsign, tanh"
    ),
    "peepholes": (
        "the float64 reference has no Peephole._compute_carry_and_output_fused, which is not "
        "Keras's"
    ),
    "further_weight": "the float64 reference has no Counted.calls, which is not Keras's",
    "called_cell": "the float64 reference has no Twice.__call__, which is not Keras's",
    "own_call": "the float64 reference has no Doubled.call, which is not Keras's",
    "own_cell": "the float64 reference has no Normalized.call, which is not Keras's",
}


def job_of(
    name: str,
    folder: Path,
    file: Path = MODELS,
    asked: Sequence[str] = ("keras", "block"),
    framework: str = "keras3_tensorflow",
) -> dict[str, Any]:
    choices = {each: {"implementation": each, "name": each} for each in ASKED.get(name, asked)}
    job = certificate_job(framework, "of_model", choices)
    job["config"]["model"] = {
        "function": f"{file}:{name}",
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
from keras import layers


class Accumulating(keras.Model):
    def __init__(self, steps, *parts):
        global tensorflow
        import tensorflow

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


def test_a_training_begins_anew_on_torch(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    write(folder, {"of_its_own.py": OF_ITS_OWN})
    of_torch = MODELS.with_name("of_torch.py")
    cases = (
        (folder / "of_its_own.py", ["in_two_parts"]),
        (of_torch, ["adding", "centred", "warmed"]),
    )
    for file, names in cases:
        job = job_of(names[0], folder, file, framework="keras3_torch")
        arguments = (json.dumps(job["config"]), file, json.dumps(names), folder / "data.npz")
        found = answer_of("keras3_torch", AGAIN, *arguments, temporary=tmp_path_factory)
        assert found == {name: [True, False] for name in names}


def test_own_losses_and_weights_on_torch(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    jobs = []
    for name in ("own_loss", "without_influence_on_the_loss", "given_weights"):
        job = job_of(name, folder, framework="keras3_torch")
        job["implementations"] = job["implementations"][:1]
        jobs.append(job)
    made = answer_of("keras3_torch", ALL_CERTIFICATES, json.dumps(jobs), temporary=tmp_path_factory)
    for certificate in made:
        result = certificate["implementations"]["keras"]
        assert (result["status"], result["applied"]["cpu_1"]["why"]) == ("certified", None), result


def test_what_torch_keeps_is_set_back_and_its_optimizers_are_refused(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = MODELS.with_name("of_torch.py")
    lines = file.read_text().splitlines()
    hooked = ("hooked", "hooked_layer", "hooked_cell")
    names = ("centred", "warmed", "holding", "normalized", "dropped", "own_optimizer")
    names += ("beside_torch", "hooked_directions", *hooked)
    asked = ("keras", "native")
    jobs = [job_of(name, folder, file, asked, framework="keras3_torch") for name in names]
    made = answer_of("keras3_torch", ALL_CERTIFICATES, json.dumps(jobs), temporary=tmp_path_factory)
    certificates = dict(zip(names, made, strict=True))
    for result in certificates.pop("own_optimizer")["implementations"].values():
        (line,) = [number for number, text in enumerate(lines, 1) if "own.step()" in text]
        said = f"{file}, line {line}: train_step applies an optimizer of its own, Adam: only that "
        assert result["why"].startswith(said), result
    kernels = {
        name: result["kernel"]
        for name, result in certificates["beside_torch"]["implementations"].items()
    }
    assert kernels == {"keras": ["torch:loop"], "native": ["torch:native"]}
    of_cell = certificates["hooked_cell"]["implementations"].pop("native")
    said = "layer lstm: native cannot stand for LSTMCell.hook of torch, which is not Keras's"
    assert of_cell["why"].endswith(said), of_cell
    for name, certificate in certificates.items():
        for result in certificate["implementations"].values():
            assert result["status"] == "certified", (name, result)
            no_reference = None
            if name in hooked:
                said = "LSTM.hook of torch, which is not Keras's"
                no_reference = f"the float64 reference has no {said}"
            assert result["no_reference"] == no_reference, (name, result)
            if no_reference is None:
                assert result["outputs"] <= TOLERANCE["float32"]["outputs"], (name, result)
            steps = result["applied"]["cpu_1"]
            why = OWN_DRAWS if name == "dropped" else None
            assert (steps["off"] or 0, steps["why"]) == (0, why), (name, steps)
        assert all(map(equal, certificate["pairs"])), (name, certificate["pairs"])


OF_JAX = """
import keras
import numpy
from keras import layers


class Normalized(keras.Model):
    def __init__(self):
        super().__init__()
        self.inner = layers.LSTM(4)
        self.normalization = layers.BatchNormalization()
        self.last = layers.Dense(1)

    def call(self, inputs, training=None):
        return self.last(self.normalization(self.inner(inputs)))


def means():
    model = keras.Sequential([layers.Input((3, 3)), layers.LSTM(4), layers.Dense(1)])
    model.compile(keras.optimizers.Adam(0.01, use_ema=True), "mse")
    return model


def called(model):
    model(numpy.zeros((2, 3, 3)))
    model.compile("adam", "mse")
    return model


def not_told():
    return called(Normalized())


class Measured(keras.Model):
    def __init__(self):
        super().__init__()
        self.inner = layers.LSTM(1)
        self.size = keras.metrics.Mean()

    def call(self, inputs):
        outputs = self.inner(inputs)
        self.size.update_state(keras.ops.abs(outputs))  # Keras on jax cannot, in a step
        return outputs


def measured():
    return called(Measured())
"""


def test_habits_of_jax(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A training goes on after weights became their means, and layers inside a model are not told
    of the training unless the model does. A step that fails is named, not what is lost with it."""
    file = folder / "of_jax.py"
    write(folder, {file.name: OF_JAX})
    names = ("means", "not_told", "measured")
    jobs = [job_of(name, folder, file, ("keras",), "keras3_jax") for name in names]
    # A further `fit` follows the steps whose changes are compared.
    script = f"{CERTIFY}certify.CHANGED_STEPS = 3\n{ALL_CERTIFICATES[len(CERTIFY) :]}"
    *made, of_measured = answer_of(
        "keras3_jax", script, json.dumps(jobs), temporary=tmp_path_factory
    )
    (line,) = [n for n, each in enumerate(OF_JAX.splitlines(), 1) if "update_state" in each]
    failed = of_measured["implementations"]["keras"]
    assert failed["status"] == "failed", failed
    assert f"{file}, line {line}: " in failed["why"], failed["why"]
    for certificate in made:
        result = certificate["implementations"]["keras"]
        assert result["status"] == "certified", result["why"]
        assert result["applied"]["cpu_1"]["off"] == 0, result["applied"]


OF_TENSORFLOW = """
import keras
import tensorflow
from keras import layers


@tensorflow.RegisterGradient("Reversed")  # TensorFlow refuses a second one of this name
def reversed_gradient(op, gradient):
    return -gradient


class Traced(keras.Model):
    def __init__(self):
        super().__init__()
        self.inner = layers.LSTM(4)
        self.inner.build((None, 3, 3))
        self.last = layers.Dense(1)

    @tensorflow.function(input_signature=[tensorflow.TensorSpec((None, 3, 3))])
    def features(self, inputs):
        return self.inner(inputs)

    def call(self, inputs):
        return self.last(self.features(inputs))


class KeepsAFunction(Traced):
    def __init__(self):
        super().__init__()
        signature = [tensorflow.TensorSpec((None, 3, 3))]
        self.features = tensorflow.function(lambda x: self.inner(x), input_signature=signature)


def traced():
    return called(Traced())


def keeps_a_function():
    return called(KeepsAFunction())


def called(model):
    model(tensorflow.zeros((1, 3, 3)))
    model.compile("adam", "mse")
    return model


class Smooth(keras.Model):
    def train_step(self, data):
        x, y = data
        with tensorflow.GradientTape() as tape:
            with tensorflow.GradientTape() as inner:
                inner.watch(x)
                predicted = self(x, training=True)
            slope = inner.gradient(predicted, x)
            loss = tensorflow.reduce_mean((predicted - y) ** 2 + slope[:, 0] ** 2)
        variables = self.trainable_variables
        gradients = tape.gradient(loss, variables, unconnected_gradients="zero")
        self.optimizer.apply_gradients(zip(gradients, variables))
        return {"loss": loss}


def of_second_derivatives():
    inputs = layers.Input((3, 3))
    model = Smooth(inputs, layers.Dense(1)(layers.LSTM(4)(inputs)))
    model.compile("adam")
    return model
"""


def test_habits_of_tensorflow(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = folder / "of_tensorflow.py"
    write(folder, {file.name: OF_TENSORFLOW})
    asked = ("keras", "block", "block_cell")
    names = ("traced", "keeps_a_function", "of_second_derivatives")
    jobs = [job_of(name, folder, file, asked) for name in names]
    made = answer_of("current", ALL_CERTIFICATES, json.dumps(jobs), temporary=tmp_path_factory)

    *traced, of_second = [each["implementations"] for each in made]
    for results in traced:
        kernels = {name: result["kernel"] for name, result in results.items()}
        assert kernels == {"keras": ["while"], "block": ["block"], "block_cell": ["block_cell"]}
    for certificate in made[:-1]:
        assert all(map(equal, certificate["pairs"])), certificate["pairs"]
    assert of_second["keras"]["status"] == "certified"
    for name in asked[1:]:
        assert of_second[name]["status"] == "refused", of_second[name]
        assert f"{name} has no second derivatives, which a loss" in of_second[name]["why"]
    lines = OF_TENSORFLOW.splitlines()
    (line,) = [number for number, each in enumerate(lines, 1) if "tape.gradient(loss" in each]
    assert of_second["block"]["why"].startswith(f"{file}, line {line}: ")


OWN_STEPS = """
import keras
import numpy
import tensorflow
from keras import layers

shared = keras.optimizers.Adam(0.01)


class Step(keras.Model):
    def train_step(self, data):
        x, y = data
        with tensorflow.GradientTape() as tape:
            loss = tensorflow.reduce_mean((self(x, training=True) - y) ** 2)
        variables = self.trainable_variables
        self.own().apply_gradients(zip(tape.gradient(loss, variables), variables))
        return {"loss": loss}

    def own(self):
        return self.optimizer


class OfTheFile(Step):
    def own(self):
        return shared


class OfANetwork(Step):
    def own(self):
        return self.layers[1].optimizer


def made(kind):
    network = keras.Sequential([layers.Input((3, 3)), layers.LSTM(4)])
    network.compile("rmsprop")
    inputs = layers.Input((3, 3))
    model = kind(inputs, layers.Dense(1)(network(inputs)))
    model.compile("adam")
    return model


def of_compile():
    return made(Step)


def of_the_file():
    return made(OfTheFile)


def of_a_network():
    return made(OfANetwork)
"""


def test_only_the_optimizer_of_compile_may_take_steps(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    write(folder, {"own_steps.py": OWN_STEPS})
    names = ("of_compile", "of_the_file", "of_a_network")
    jobs = [job_of(name, folder, folder / "own_steps.py", ("keras",)) for name in names]
    made = answer_of("current", ALL_CERTIFICATES, json.dumps(jobs), temporary=tmp_path_factory)
    right, *others = [each["implementations"]["keras"] for each in made]
    assert right["status"] == "certified", right["why"]
    assert right["loss_curve"][0] > 0, "Keras would report its own tracker, which is 0"
    lines = OWN_STEPS.splitlines()
    for text, name, result in zip(
        ("shared =", "network.compile"), ("Adam", "RMSprop"), others, strict=True
    ):
        (line,) = [number for number, each in enumerate(lines, 1) if text in each]
        assert result["status"] == "refused", result
        said = f"line {line}: train_step applies an optimizer of its own, {name}: only that of"
        assert said in result["why"]


def test_weights_without_a_seed_are_not_blamed_on_an_implementation(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    jobs = json.dumps([job_of("without_a_seed", folder)])
    made = answer_of("current", ALL_CERTIFICATES, jobs, temporary=tmp_path_factory)
    (pair,) = made[0]["pairs"]
    said = f"{MODELS}:without_a_seed returns other weights in each call (lstm/kernel differs): seed"
    assert pair["why"].startswith(said)
    assert pair["weights"] is None


FILE = """
import keras
from keras import layers
{before}

def build({argument}):
    parts = [layers.Input(({shape})), layers.LSTM({units}), layers.Dense(1)]
    {scope}model = keras.Sequential(parts)
    model.compile("adam", "mse"){after}
    return model
"""
ARGUMENTS = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument({}, type=int, default=4)
args = parser.parse_args()
"""
MIRRORED = "with tensorflow.distribute.MirroredStrategy().scope(): "
THREADS = "import tensorflow; tensorflow.config.threading.set_intra_op_parallelism_threads(3)"
GRAPH = "import tensorflow; tensorflow.compat.v1.disable_eager_execution()"
COMPILES = "line 9: build compiles its model with "
# What a file has in place of a part of `FILE`, and how its refusal ends; None if it has none.
FILES = [
    ({"before": ARGUMENTS.format("'--units'"), "units": "args.units"}, None),
    (
        {"before": ARGUMENTS.format("'units'").replace(", default=4", "")},
        "line 8: it ends the program, as argparse does without an argument that it needs: ",
    ),
    (
        {"shape": "3, 5"},
        ":build: the model takes samples of the shape (3, 5), and x_train has (3, 3)",
    ),
    ({"before": "import warnings; warnings.simplefilter('error')"}, None),
    ({"argument": "shape"}, ":build needs shape: give it a default; rnnbench gives only keras, "),
    ({"after": "; model.run_eagerly = True"}, f"{COMPILES}run_eagerly=True: "),
    ({"after": "; model.steps_per_execution = 2"}, f"{COMPILES}steps_per_execution=2: "),
    (
        {"before": "import tensorflow", "scope": MIRRORED},
        "line 8: build makes its model for MirroredStrategy: the device in the grid decides about ",
    ),
    (
        {"before": THREADS},
        "line 4: Intra op parallelism cannot be modified after initialization: the device in the ",
    ),
    (
        {"before": "keras.backend.clear_session()", "precision": "mixed_bfloat16"},
        "line 4: it sets policy to float32, and this run has mixed_bfloat16: precision in the ",
    ),
    ({"before": GRAPH}, "line 4: it sets eager execution to False, and this run has True: "),
]


def test_a_file_is_run_as_a_program_and_refused_for_what_the_grid_decides(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    jobs = []
    usual = {"before": "", "argument": "", "shape": "3, 3", "units": "4", "scope": "", "after": ""}
    for number, (changes, _) in enumerate(FILES):
        file = folder / f"program_{number}.py"
        file.write_text(FILE.format(**usual | changes))
        job = job_of("build", folder, file, ("keras",))
        job["config"]["precision"] = changes.get("precision", "float32")
        jobs.append(job)
    made = answer_of("current", ALL_CERTIFICATES, json.dumps(jobs), temporary=tmp_path_factory)
    for (changes, said), certificate in zip(FILES, made, strict=True):
        result = certificate["implementations"]["keras"]
        if said is None:
            assert result["status"] == "certified", (changes, result)
            continue
        assert result["status"] == "refused", (changes, result)
        assert said in result["why"], (changes, result)


OF_KERAS_2 = """
import numpy
import tensorflow
from tensorflow import keras
from tensorflow.keras import layers


def sequential(*parts, optimizer="adam"):
    model = keras.Sequential([layers.Input((3, 3)), *parts, layers.Dense(1)])
    model.compile(optimizer, "mse")
    return model


def legacy_optimizer():
    return sequential(layers.LSTM(4), optimizer=keras.optimizers.legacy.Adam(0.01, decay=0.1))


def time_major():
    turned = layers.Lambda(lambda x: tensorflow.transpose(x, [1, 0, 2]))
    last = layers.Lambda(lambda x: x[-1])
    return sequential(turned, layers.LSTM(4, time_major=True, return_sequences=True), last)


def other_units_backward():
    backward = layers.LSTM(3, go_backwards=True)
    return sequential(layers.Bidirectional(layers.LSTM(4), backward_layer=backward))


def own_draws():
    generator = tensorflow.random.Generator.from_seed(1)
    noise = layers.Lambda(lambda x: x + generator.normal(tensorflow.shape(x)))
    return sequential(layers.LSTM(4), noise)


def ragged():
    lengths = lambda x: tensorflow.fill([tensorflow.shape(x)[0]], 2)
    cut = lambda x: tensorflow.RaggedTensor.from_tensor(x, lengths(x))
    return sequential(layers.Lambda(cut), layers.LSTM(4))


def of_cudnn():
    return sequential(tensorflow.compat.v1.keras.layers.CuDNNLSTM(4))


def build():
    model = sequential(layers.LSTM(4))
    model.fit(numpy.ones((8, 3, 3)), numpy.ones((8, 1)), epochs=3, verbose=0)
    return model
"""
OWN_DRAWS = "not compared with the gradient: the model draws random numbers of its own in each step"


def test_habits_of_keras_2(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = folder / "of_keras_2.py"
    write(folder, {file.name: OF_KERAS_2})
    whys = {"legacy_optimizer": None, "time_major": None, "own_draws": OWN_DRAWS}
    whys["other_units_backward"] = None
    jobs = []
    for name in (*whys, "of_cudnn"):
        asked = ("keras", "unrolled", "block")
        jobs.append(job_of(name, folder, file, asked, "keras2_tensorflow2"))
    jobs.append(job_of("ragged", folder, file, ("unrolled",), "keras2_tensorflow2"))
    made = answer_of("tf_2_15", ALL_CERTIFICATES, json.dumps(jobs), temporary=tmp_path_factory)
    ragged = made.pop()["implementations"]["unrolled"]
    assert ragged["why"].endswith("layer lstm: unrolled has no ragged inputs"), ragged
    of_cudnn = made.pop()["implementations"]
    for (name, why), certificate in zip(whys.items(), made, strict=True):
        for implementation, result in certificate["implementations"].items():
            shown = (name, implementation, result)
            assert result["status"] == "certified", shown
            assert result["applied"]["cpu_1"]["why"] == why, shown
            assert result["outputs"] <= TOLERANCE["float32"]["outputs"], shown
        assert all(map(equal, certificate["pairs"])), certificate["pairs"]
    for result in of_cudnn.values():
        said = "line 42: the layer cu_dnnlstm is cuDNN itself: write keras.layers.LSTM"
        assert said in result["why"], result

    config = json.dumps(jobs[0]["config"])
    arguments = (config, file, folder / "data.npz")
    taken = answer_of("tf_2_15", STEPS_TAKEN, *arguments, temporary=tmp_path_factory)
    assert taken == [3, 0, 3]


SET_LATER = """
from tensorflow import keras
from tensorflow.keras import layers


def build():
    model = keras.Sequential([layers.LSTM(4, input_shape=(3, 3)), layers.Dense(1)])
    model.compile("adam", "mse")
    keras.backend.set_value(model.optimizer.lr, 0.5)
    return model
"""
RATE = """
import json, sys
from rnnworker import frameworks

config, file = json.loads(sys.argv[1]), sys.argv[2]
model = dict(config["model"], function=file + ":build")
session = frameworks.open_session(dict(config, model=model, rnn={"implementation": "keras"}), 1)
session.load_data(sys.argv[3])
session.build()
print(float(session.model_facts(session.layers())["optimizer"]["learning_rate"]))
"""


@pytest.mark.parametrize("build", ["tf_2_15", "tf_1_15"])
def test_a_learning_rate_that_is_set_after_compile_remains(
    build: str, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    write(folder, {"set_later.py": SET_LATER})
    job = job_of("build", folder, framework=settings_of(build)["framework"])
    arguments = (json.dumps(job["config"]), folder / "set_later.py", folder / "data.npz")
    assert answer_of(build, RATE, *arguments, temporary=tmp_path_factory) == 0.5


WITH_PEEPHOLES = """
from tensorflow import keras
from tensorflow.keras import layers


def build():
    cell = keras.experimental.PeepholeLSTMCell(4)
    model = keras.Sequential([layers.RNN(cell, input_shape=(3, 3)), layers.Dense(1)])
    model.compile("adam", "mse")
    return model
"""


def test_a_cell_of_keras_with_other_formulas_has_no_reference(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = folder / "with_peepholes.py"
    write(folder, {file.name: WITH_PEEPHOLES})
    job = job_of("build", folder, file, ("keras",), settings_of("tf_1_15")["framework"])
    made = answer_of("tf_1_15", ALL_CERTIFICATES, json.dumps([job]), temporary=tmp_path_factory)
    result = made[0]["implementations"]["keras"]
    assert result["status"] == "certified", result
    said = "the float64 reference has no PeepholeLSTMCell._compute_carry_and_output, which is not "
    assert result["no_reference"] == f"{said}Keras's"


OF_TENSORFLOW_1 = """
import tensorflow
from tensorflow import keras
from tensorflow.keras import layers


class Called(keras.Model):
    def __init__(self):
        super().__init__()
        self.inner = layers.LSTM(4)
        self.last = layers.Dense(1)

    def call(self, inputs):
        return self.last(self.inner(inputs))


def build():
    model = Called()
    model.compile(tensorflow.train.AdamOptimizer(0.01), "mse")
    return model
"""


def test_a_model_without_inputs_and_an_optimizer_of_tensorflow_1(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = folder / "of_tensorflow_1.py"
    write(folder, {file.name: OF_TENSORFLOW_1})
    framework = settings_of("tf_1_15")["framework"]
    job = job_of("build", folder, file, OF_KERAS, framework)
    made = answer_of("tf_1_15", ALL_CERTIFICATES, json.dumps([job]), temporary=tmp_path_factory)
    for result in made[0]["implementations"].values():
        assert result["status"] == "certified", result
        assert result["applied"]["cpu_1"]["why"] is None, result
    assert all(map(equal, made[0]["pairs"])), made[0]["pairs"]
    arguments = (json.dumps(job["config"]), file, '["build"]', folder / "data.npz")
    found = answer_of("tf_1_15", AGAIN, *arguments, temporary=tmp_path_factory)
    assert found == {"build": [True, False]}
