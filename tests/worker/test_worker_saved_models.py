"""Models that Keras 3 has saved as a whole: another implementation in the place of their layers
computes what the saved model computed, from the weights of the file."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tests.worker.building import CERTIFY, answer_of, certificate_job, equal, settings_of

SAVE = """
import sys
import keras, numpy
from keras import layers
folder = sys.argv[1]
inputs = layers.Input((6, 3))
hidden = layers.Bidirectional(layers.LSTM(4, return_sequences=True))(inputs)
inner = keras.Sequential([layers.Input((6, 8)), layers.LSTM(5)])
model = keras.Model(inputs, layers.Dense(1)(inner(hidden)))
model.compile(keras.optimizers.Adam(0.01), "mse")
stream = numpy.random.RandomState(0)
x = stream.normal(size=(48, 6, 3)).astype("float32")
y = x.sum((1, 2))[:, None]
model.fit(x, y, epochs=2, verbose=0)
model.save(folder + "/stack.keras")
arrays = {"x_train": x[:32], "y_train": y[:32], "x_val": x[32:], "y_val": y[32:]}
numpy.savez(folder + "/data.npz", **arrays)
numpy.save(folder + "/outputs.npy", model.predict(x[32:], verbose=0))
other = keras.Sequential([layers.Input((6, 3)), layers.LSTM(4, recurrent_dropout=0.2)])
other.save(folder + "/dropout.keras")
print("null")
"""
SCRIPT = (
    CERTIFY
    + """
import numpy

certify.STEPS = certify.APPLIED_STEPS = 3
jobs, expected = json.loads(sys.argv[1]), numpy.load(sys.argv[2])
arrays, _ = certify.samples_of(jobs[0])
apart = []
for entry in jobs[0]["implementations"]:
    try:
        trial = certify.Trial(jobs[0], entry["rnn"], arrays)
    except certify.Refusal:
        continue
    trial.session.load_weights(trial.weights)
    apart.append(float(abs(trial.session.outputs() - expected).max()))
print(json.dumps([apart, *map(certificate, jobs)]))
"""
)
OTHER = {"current": "block", "keras3_torch": "native", "keras3_jax": "native", "tf_2_15": "block"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    answer_of("current", SAVE, folder, temporary=tmp_path_factory)
    return folder


def job_of(file: Path, build: str) -> dict:
    choices = {name: {"implementation": name, "name": name} for name in ("keras", OTHER[build])}
    job = certificate_job(settings_of(build)["framework"], "of_model", choices)
    job["config"]["model"] = {
        "function": "rnnworker.models.saved:build",
        "file": str(file),
        "md5": hashlib.md5(file.read_bytes()).hexdigest(),
        "data": {"prepare": "rnnworker.readers.given:prepare"},
        **{"batch": 16, "epochs": 1, "loss": None, "optimizer": None},
    }
    if file.stem == "dropout":
        job["config"]["model"].update(loss="mse", optimizer={"name": "sgd"})
    return {**job, "dataset": str(file.parent / "data.npz")}


@pytest.mark.parametrize("build", ["current", "keras3_torch", "keras3_jax"])
def test_every_implementation_continues_from_the_saved_model(
    build: str, folder: Path, tmp_path_factory
) -> None:
    jobs = [job_of(folder / f"{name}.keras", build) for name in ("stack", "dropout")]
    arguments = json.dumps(jobs), folder / "outputs.npy"

    apart, stack, dropout = answer_of(build, SCRIPT, *arguments, temporary=tmp_path_factory)

    assert len(apart) == 2 and max(apart) < 1e-5
    for result in stack["implementations"].values():
        assert result["status"] == "certified", result
    assert all(map(equal, stack["pairs"]))
    refused = dropout["implementations"][OTHER[build]]
    assert refused["status"] == "refused"
    said = f"{folder}/dropout.keras: layer lstm_2: {OTHER[build]} has no recurrent_dropout"
    assert refused["why"] == said


def test_keras_2_and_a_file_that_has_changed_are_refused(folder: Path, tmp_path_factory) -> None:
    jobs = [job_of(folder / "stack.keras", "tf_2_15")]
    arguments = json.dumps(jobs), folder / "outputs.npy"
    _, found = answer_of("tf_2_15", SCRIPT, *arguments, temporary=tmp_path_factory)
    for result in found["implementations"].values():
        assert result["status"] == "refused" and "Keras 2 cannot load" in result["why"]

    job = job_of(folder / "stack.keras", "current")
    job["config"]["model"]["md5"] = "0" * 32
    arguments = json.dumps([job]), folder / "outputs.npy"
    _, found = answer_of("current", SCRIPT, *arguments, temporary=tmp_path_factory)
    for result in found["implementations"].values():
        assert result["status"] == "refused" and "has changed since" in result["why"]
