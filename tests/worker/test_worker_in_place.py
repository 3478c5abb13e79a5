"""A kernel in place computes the author's own layers: whatever an author does to a model by class,
name, index or weight, each implementation trains it as plain Keras does, or refuses it with the
line. `tests/models/in_place/ordinary.py` has the models."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from rnnworker import user_functions
from tests.conftest import ROOT
from tests.worker.building import answer_of, certificate_job, settings_of, write

MODELS = ROOT / "tests" / "models" / "in_place" / "ordinary.py"
IMPLEMENTATIONS = {
    "current": ("keras", "block", "unrolled"),
    "keras3_torch": ("keras", "native"),
}
# Model → what a kernel says of it, with the text of the line that made the layer.
REFUSED_BY_KERNELS = {
    "recurrent_dropout": ("layers.LSTM(4, recurrent_dropout", "layer lstm: {} has no recurrent_dr"),
    "masked": ("layers.Masking(), layers.LSTM(4)", "layer lstm: {} has no masks"),
    "own_call": (
        "return sequential(Doubled(4))",
        "layer doubled: {} cannot stand for Doubled.call, which is not Keras's",
    ),
    "stack_of_cells": (
        "layers.RNN([layers.LSTMCell(4), layers.LSTMCell(3)])",
        "layer rnn: {} computes LSTM",
    ),
    "own_cell": (
        "layers.RNN(Normalized(4))",
        "layer rnn: {} cannot stand for Normalized.call, which is not Keras's",
    ),
}
REFUSED = {
    **{("native", model): said for model, said in REFUSED_BY_KERNELS.items()},
    **{("block", model): said for model, said in REFUSED_BY_KERNELS.items()},
    ("block", "two_kinds_of_directions"): (
        "backward = layers.GRU",
        "layer gru: block computes LSTM only, not GRUCell",
    ),
}
UNROLLED = (
    "LSTM(4, unroll=True)",
    "a model cannot set unroll=True: write rnn=unrolled in the grid",
)
CUDNN = (
    "use_cudnn=True",
    "a model cannot set use_cudnn=True: write rnn=cudnn, rnn=auto or rnn=keras",
)
for _name in ("keras", "block", "native", "unrolled"):
    REFUSED[_name, "with_cudnn"] = CUDNN
    if _name != "unrolled":
        REFUSED[_name, "unrolled"] = UNROLLED
TRAINED = """
import json, sys
import keras, numpy
from rnnlayers import kernel_of, recurrent_layers
from rnnworker import frameworks, user_functions

config, file, names = json.loads(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
stream = numpy.random.RandomState(0)
x, y = stream.normal(size=(4, 3, 3)).astype("float32"), numpy.ones((4, 1), "float32")


def inputs_of(name):
    return [x, x[::-1].copy()] if name == "positional_states" else x


def trained(model, inputs):
    model.run_eagerly = True
    losses = [float(model.train_on_batch(inputs, y)) for _ in range(3)]
    return losses, model.get_weights(), {
        "paths": [weight.path for weight in model.weights],
        "trained": [weight.path for weight in model.trainable_weights],
        "states": [weight.path for weight in model.variables],
    }


def plain(name, start):
    keras.utils.clear_session()
    keras.utils.set_random_seed(config["seed"])
    user_functions.forget()
    model = user_functions.function(file + ":" + name)()
    model.set_weights(start)
    keras.utils.set_random_seed(config["seed"])  # a session resets torch's generator too
    return trained(model, inputs_of(name))


def with_kernel(name, implementation):
    # (weights before, losses, weights after, facts, kernels)
    rnn = {"implementation": implementation, "name": implementation}
    model = dict(config["model"], function=file + ":" + name)
    user_functions.forget()
    session = frameworks.open_session(dict(config, model=model, rnn=rnn), 1)
    session.settle()
    parts = {"x": inputs_of(name), "y": y}
    session.arrays = {key + end: parts[key] for key in parts for end in ("_train", "_val")}
    session.build()
    session.load_weights(session.dump_weights())
    session.reset()
    start = session.model.get_weights()
    kernels = sorted({kernel_of(layer) for layer in recurrent_layers(session.model)})
    return (start, *trained(session.model, session.arrays["x_train"]), kernels)


def apart(ours, theirs):
    return max(float(abs(a - b).max()) for a, b in zip(ours, theirs))


found = {}
for name in names:
    found[name] = {}
    expected = None
    for implementation in json.loads(sys.argv[4]):
        try:
            start, losses, after, facts, kernels = with_kernel(name, implementation)
        except ValueError as error:
            found[name][implementation] = user_functions.one_line(error)
            continue
        if expected is None:
            first, expected = start, plain(name, start)
        found[name][implementation] = {
            "kernels": kernels,
            "facts": [facts, expected[2]],
            "losses": [losses, expected[0]],
            "starts_apart": apart(start, first),
            "apart": apart(after, expected[1]),
            "moved": apart(start, after),
        }
print(json.dumps(found))
"""


def line_of(text: str) -> int:
    lines = MODELS.read_text().splitlines()
    (number,) = [number for number, line in enumerate(lines, 1) if text in line]
    return number


def job_of(build: str) -> dict[str, Any]:
    config = certificate_job("", "of_model", {})["config"]
    config["model"] = {"batch": 4, "data": {"prepare": ""}, "loss": None, "optimizer": None}
    # As in a certificate, which looks for masks.
    return {**config, "build": settings_of(build), "certifying": True}


NAMES = re.findall(r"^    (\w+),$", MODELS.read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Any:
    remembered: dict[str, Any] = {}

    def of(build: str) -> Any:
        if build not in remembered:
            names = json.dumps(NAMES)
            arguments = (json.dumps(job_of(build)), MODELS, names)
            remembered[build] = answer_of(
                build,
                TRAINED,
                *arguments,
                json.dumps(IMPLEMENTATIONS[build]),
                temporary=tmp_path_factory,
            )
        return remembered[build]

    return of


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("build", IMPLEMENTATIONS)
def test_each_weight_is_trained_as_plain_keras_trains_it_or_the_line_is_refused(
    build: str, name: str, trained: Any
) -> None:
    for implementation, result in trained(build)[name].items():
        refused = REFUSED.get((implementation, name))
        if refused is not None:
            text, reason = refused
            said = f"{MODELS}, line {line_of(text)}: {reason.format(implementation)}"
            assert isinstance(result, str) and result.startswith(said), result
            continue
        assert not isinstance(result, str), (implementation, result)
        facts, of_keras = result["facts"]
        assert facts == of_keras, implementation
        assert result["kernels"] == [implementation]
        ours, of_keras = result["losses"]
        assert ours == pytest.approx(of_keras, rel=5e-6), implementation
        assert result["starts_apart"] == 0
        assert result["apart"] < 1e-5, implementation
        assert result["moved"] > 1e-4, "nothing was trained"


# Setting → (the lines of a file, that of the refusal, its text).
SETTINGS = {
    "current": {
        "floatx": (
            ["keras.backend.set_floatx('float64')"],
            "it sets floatx to float64, and this run has float32: precision in the grid decides",
        ),
        "policy": (
            ["keras.config.set_dtype_policy('mixed_float16')"],
            "it sets policy to mixed_float16, and this run has float32: precision in the grid "
            "decides it: write precision=mixed_float16",
        ),
        "tf32": (
            [
                "import tensorflow",
                "tensorflow.config.experimental.enable_tensor_float_32_execution(True)",
            ],
            "it sets TF32 to True, and this run has False: precision in the grid decides it",
        ),
        "eager functions": (
            ["import tensorflow", "tensorflow.config.run_functions_eagerly(True)"],
            "it sets eager functions to True, and this run has False: each build compiles",
        ),
        "backend": (
            ["import os", "os.environ['KERAS_BACKEND'] = 'torch'"],
            "it sets backend to torch, and this run has tensorflow: the build decides it: "
            "build=keras3_torch measures that",
        ),
        "none": (["keras.utils.set_random_seed(5)"], None),
    },
    "keras3_jax": {
        "eager functions": (
            ["import jax", "jax.config.update('jax_disable_jit', True)"],
            "it sets eager functions to True, and this run has False: each build compiles its",
        ),
    },
    "keras3_torch": {
        "tf32": (
            ["import torch", "torch.set_float32_matmul_precision('high')"],
            "it sets TF32 to in part, and this run has False: precision in the grid decides it",
        ),
        "threads": (
            ["import torch", "torch.set_num_threads(2)"],
            "it sets threads to 2, and this run has 1: the device decides it: write "
            "device.threads=2",
        ),
    },
}
WITH_SETTING = """import keras
{}


def build():
    parts = [keras.layers.Input((3, 3)), keras.layers.LSTM(2), keras.layers.Dense(1)]
    model = keras.Sequential(parts)
    model.compile("sgd", "mse")
    return model
"""
SAID = """
import json, os, sys
from rnnworker import frameworks, user_functions

config, files = map(json.loads, sys.argv[1:])
said = {}
for name, file in files.items():
    said[name] = []
    environment = dict(os.environ)
    for implementation in ("keras", "unrolled"):
        rnn = {"implementation": implementation, "name": implementation}
        model = dict(config["model"], function=file + ":build")
        user_functions.forget()
        session = frameworks.open_session(dict(config, model=model, rnn=rnn), 1)
        try:
            session.build()
            said[name].append(None)
        except ValueError as error:
            said[name].append(user_functions.one_line(error))
    os.environ.clear()
    os.environ.update(environment)
    if name == "eager functions" and hasattr(session, "tensorflow"):
        session.tensorflow.config.run_functions_eagerly(False)
print(json.dumps(said))
"""


@pytest.mark.parametrize("build", SETTINGS)
def test_a_setting_of_the_file_that_the_grid_decides_is_refused_for_each_implementation(
    build: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    files = {}
    for name, (lines, _) in SETTINGS[build].items():
        file = f"{name.replace(' ', '_')}.py"
        write(tmp_path, {file: WITH_SETTING.format("\n".join(lines))})
        files[name] = str(tmp_path / file)
    arguments = (json.dumps(job_of(build)), json.dumps(files))

    said = answer_of(build, SAID, *arguments, temporary=tmp_path_factory)

    for name, (lines, reason) in SETTINGS[build].items():
        if reason is None:
            assert said[name] == [None, None]
            continue
        expected = f"{files[name]}, line {len(lines) + 1}: {reason}"
        for text in said[name]:
            assert text is not None and text.startswith(expected), (name, text)


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


OPTIONS = """
import json, sys
from rnnworker import frameworks, user_functions

config, file = json.loads(sys.argv[1]), sys.argv[2]
model = dict(config["model"], function=file + ":frozen_by_name")
said = []
for rnn in json.loads(sys.argv[3]):
    user_functions.forget()
    session = frameworks.open_session(dict(config, model=model, rnn=rnn), 1)
    try:
        session.build()
        said.append(None)
    except ValueError as error:
        said.append(user_functions.one_line(error))
print(json.dumps(said))
"""


def test_an_option_of_the_grid_is_refused_by_layers_that_state_their_own(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    relu = {"implementation": "keras", "options": {"activation": "relu"}}
    longest = {"implementation": "unrolled", "options": {"longest": 5000, "activation": None}}
    arguments = (json.dumps(job_of("current")), MODELS, json.dumps([relu, longest]))
    refused, accepted = answer_of("current", OPTIONS, *arguments, temporary=tmp_path_factory)
    said = (
        f"{MODELS}, line {line_of('return_sequences=True), layers.LSTM(3), **settings')}: "
        "rnn.options.activation is for layers that recurrent(…) makes: the layer lstm states its "
        "own arguments"
    )
    assert (refused, accepted) == (said, None)


RATES = """
import json
import keras
from rnnworker.frameworks import random_layers

parts = [keras.layers.Input((3, 3)), keras.layers.SpatialDropout1D(0.3)]
parts += [keras.layers.LSTM(2, dropout=0.2), keras.layers.Dropout(0.1)]
model = keras.Sequential(parts)


def rates():
    drop, lstm, other = model.layers
    return [drop.rate, lstm.cell.dropout, other.rate]


before = rates()
with random_layers.off(model, keras.layers):
    inside = rates()
print(json.dumps([before, inside, rates()]))
"""


def test_dropout_is_what_it_was_after_it_was_turned_off(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    before, inside, after = answer_of("current", RATES, temporary=tmp_path_factory)
    assert before == after == [0.3, 0.2, 0.1] and inside == [0, 0, 0]


RESET = """
import json, sys
import numpy
from rnnworker import frameworks

config, file = json.loads(sys.argv[1]), sys.argv[2]
rnn = {"implementation": "keras", "name": "keras"}
model = dict(config["model"], function=file + ":dropout")
session = frameworks.open_session(dict(config, model=model, rnn=rnn), 1)
stream = numpy.random.RandomState(0)
parts = {"x": stream.normal(size=(8, 3, 3)), "y": numpy.ones((8, 1))}
arrays = {key: value.astype("float32") for key, value in parts.items()}
session.arrays = {key + end: arrays[key] for key in arrays for end in ("_train", "_val")}
session.build()
session.load_weights(session.dump_weights())
orders = [numpy.arange(4), numpy.arange(4, 8)]
session.loss_curve(orders[:1])
curves = []
for steps in (orders, orders * 3, orders):
    session.reset()
    curves.append(session.loss_curve(steps)[:2])
print(json.dumps(curves))
"""


@pytest.mark.parametrize("build", ["current", "keras3_torch", "keras3_jax"])
def test_a_reset_brings_the_masks_of_dropout_back(
    build: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """`findings/restored_seed_states_leave_torch_with_other_masks.sh`; how long a run warms up must
    not decide which masks it draws."""
    arguments = (json.dumps(job_of(build)), MODELS)
    first, second, third = answer_of(build, RESET, *arguments, temporary=tmp_path_factory)
    assert first == second == third and first[0] != first[1]
