"""The metrics that a model compiles are in the record, in every build, with the values that
follow from the outputs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy
import pytest

from rnnworker.frameworks.keras_training import further_metrics, renamed
from tests.worker.building import answer_of, certificate_job, settings_of, write

BUILDS = ("current", "keras3_torch", "keras3_jax", "tf_2_15", "tf_1_15")
NETWORK = """
def build(keras):
    inputs = keras.layers.Input((5, 3))
    noisy = keras.layers.GaussianNoise(0.1, name="noise")(inputs)
    sequence = keras.layers.LSTM(4, return_sequences=True)(noisy)
    if hasattr(keras.layers, "MultiHeadAttention"):
        attention = keras.layers.MultiHeadAttention(1, 2, dropout=0.2, name="attention")
        sequence = attention(sequence, sequence)
    masked = keras.layers.Dropout(0.5, name="mask")(keras.layers.LSTM(4)(sequence))
    outputs = keras.layers.Dense(1)(masked)
    model = keras.models.Model(inputs, outputs)
    model.compile(keras.optimizers.SGD(0.01), "mse", metrics=["mae"])
    return model
"""
TRAINED = """
import json, sys
import numpy
from rnnworker import frameworks
from rnnworker.events import Events
from rnnworker.turns import Turns

config, dataset, events = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3]
session = frameworks.open_session(config, 1)
data = session.load_data(dataset)
session.build()
layers = session.layers()
session.load_weights(session.dump_weights())
session.train_steps(1)
epochs = []
with open(events, "wb") as file:
    session.fit(epochs.append, lambda: None, Turns(Events(file.fileno())))
expected = session.outputs().reshape(-1) - session.arrays["y_val"].reshape(-1)
facts = session.model_facts(layers)
print(json.dumps({
    "metrics": [epoch["metrics"] for epoch in epochs],
    "columns": [epoch["val_loss"] for epoch in epochs],
    "val_mae": float(numpy.abs(expected).mean()),
    "val_loss": float((expected ** 2).mean()),
    "loss": facts["loss"],
    "optimizer": facts["optimizer"]["class_name"],
    "weighted": data["weighted"],
    "random_layers": facts["random_layers"],
}))
"""


@pytest.mark.parametrize(
    ("build", "certifying"), [*((build, False) for build in BUILDS), ("tf_2_15", True)]
)
def test_the_metrics_of_a_model_are_recorded(
    build: str, certifying: bool, tmp_path: Path, tmp_path_factory
) -> None:
    write(tmp_path, {"mine.py": NETWORK})
    stream, arrays = numpy.random.RandomState(0), {}
    for part in ("train", "val"):
        arrays[f"x_{part}"] = stream.normal(size=(40, 5, 3)).astype("float32")
        arrays[f"y_{part}"] = stream.normal(size=(40, 1)).astype("float32")
    numpy.savez(tmp_path / "mine.npz", **arrays)
    config = certificate_job("", "lstm", {})["config"]
    config |= {"rnn": {"implementation": "keras"}, "build": settings_of(build)}
    config["certifying"] = certifying
    config["model"] = {
        "function": f"{tmp_path}/mine.py:build",
        "data": {"prepare": "rnnworker.readers.given:prepare"},
        "batch": 16,
        "epochs": 2,
    }
    arguments = (TRAINED, json.dumps(config), tmp_path / "mine.npz", tmp_path / "events")

    found = answer_of(build, *arguments, temporary=tmp_path_factory)

    assert len(found["metrics"]) == 2
    last = {}
    for name, value in found["metrics"][-1].items():
        last[name.replace("mean_absolute_error", "mae")] = value  # as Keras 2 calls it
    assert set(last) == {"mae", "val_mae"}
    assert last["val_mae"] == pytest.approx(found["val_mae"], rel=1e-5)
    assert found["columns"][-1] == pytest.approx(found["val_loss"], rel=1e-5)
    assert (found["loss"], found["optimizer"], found["weighted"]) == ("mse", "SGD", [])
    random_layers = ["noise", "attention", "mask"]
    if build == "tf_1_15":
        random_layers.remove("attention")
    if certifying:  # in Keras 2, whose masks cannot be set
        random_layers = []
    assert found["random_layers"] == random_layers


TWO_OUTPUTS = """
from rnnworker.models import shape


def build(keras):
    inputs = keras.layers.Input((5, 3))
    last = keras.layers.LSTM(4)(inputs)
    dense = keras.layers.Dense
    outputs = [dense(10, activation="softmax", name=name)(last) for name in ("first", "second")]
    return keras.models.Model(inputs, outputs)


def prepare(source, config):
    arrays = shape.prepare(source, config)
    for name in ("y_train", "y_val"):
        arrays[name] = [arrays[name], arrays[name]]
    return arrays
"""
EVALUATED = """
import json, sys
from rnnworker import frameworks

session = frameworks.open_session(json.loads(sys.argv[1]), 1)
session.load_data(None)
session.build()
print(json.dumps(list(session.evaluate())))
"""


@pytest.mark.parametrize("build", ["current", "tf_1_2"])
def test_each_output_has_the_metrics_of_the_model(
    build: str, tmp_path: Path, tmp_path_factory
) -> None:
    write(tmp_path, {"mine.py": TWO_OUTPUTS})
    file = tmp_path / "mine.py"
    functions = {"function": f"{file}:build", "data": {"prepare": f"{file}:prepare"}}
    config = certificate_job("", "of_model", {}, **functions)["config"]
    config |= {"rnn": {"implementation": "keras"}, "build": settings_of(build)}
    for unread in ("units", "recurrent_dropout"):
        del config["model"][unread]

    found = answer_of(build, EVALUATED, json.dumps(config), temporary=tmp_path_factory)

    accuracies = {name.replace("accuracy", "acc") for name in found if "acc" in name}
    assert accuracies == {"first_acc", "second_acc"}


def test_the_first_accuracy_is_the_recorded_one_and_the_others_keep_their_names() -> None:
    results = {"loss": 2, "binary_accuracy": 0.5, "accuracy": 0.75, "auc": 0.25}
    found = renamed(results)
    assert found == {"loss": 2, "acc": 0.5, "accuracy": 0.75, "auc": 0.25}
    assert further_metrics(found, found) == {
        "accuracy": 0.75, "auc": 0.25, "val_accuracy": 0.75, "val_auc": 0.25,
    }  # fmt: skip


def test_a_metric_of_several_numbers_has_a_name_for_each() -> None:
    results = {"loss": numpy.float32(2), "f1": numpy.array([0.5, 0.25]), "auc": [0.75]}
    assert renamed(results) == {"loss": 2, "f1_0": 0.5, "f1_1": 0.25, "auc": 0.75}


@pytest.mark.parametrize("part", ["accuracy", "acc"])
def test_an_accuracy_has_one_name_in_all_versions(part: str) -> None:
    assert renamed({part: 0.5}) == {"acc": 0.5}
