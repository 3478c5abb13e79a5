"""Weights of samples and of classes: where they come from, and that Keras trains with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rnnworker import data
from rnnworker.arguments import Refusal
from tests.worker.building import (
    ALL_CERTIFICATES,
    MODEL,
    answer_of,
    certificate_job,
    settings_of,
    write,
)

CLASSES = np.array([0, 1, 2, 1])
ONE_HOT = np.eye(3)[CLASSES]


@pytest.mark.parametrize("y", [CLASSES, CLASSES[:, None], CLASSES.astype("float32"), ONE_HOT])
def test_each_sample_has_the_weight_of_its_class(y: np.ndarray) -> None:
    weights = data.weights_of_classes(y, {"1": 4.0, 2: 0.5})

    assert weights.tolist() == [1, 4, 0.5, 4]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ({"a": CLASSES}, "one class for each sample"),
        (ONE_HOT[:, None], "one class for each sample"),
        (np.array([[0, 1], [2, 1]]), "one class for each sample"),
        (np.array([[1.0, 1.0], [0.0, 1.0]]), "one class for each sample"),
        (np.array([0.5, 1.0]), "one class for each sample"),
        (CLASSES, "class 7, and no sample has it"),
    ],
)
def test_targets_without_classes_are_refused(y: Any, message: str) -> None:
    with pytest.raises(Refusal, match=message):
        data.weights_of_classes(y, {7: 2.0})


def write_model(folder: Path, **arrays: Any) -> dict[str, Any]:
    """The configuration of a model that prepares these arrays, four samples for each part."""
    np.savez(folder / "mine.npz", x_train=CLASSES, y_train=CLASSES, x_val=CLASSES, y_val=CLASSES)
    prepared = "def prepare(source, config):\n    import numpy\n    return dict(source, **{})\n"
    listed = {name: f"numpy.array({np.asarray(each).tolist()})" for name, each in arrays.items()}
    text = "{" + ", ".join(f"{name!r}: {code}" for name, code in listed.items()) + "}"
    write(folder, {"mine.py": prepared.format(text)})
    return {"data": {"prepare": f"{folder}/mine.py:prepare"}}


def test_the_limits_of_samples_hold_for_weights_too(tmp_path: Path) -> None:
    model = write_model(tmp_path, sample_weight_train=[1, 2, 3, 4], sample_weight_val=[5, 6, 7, 8])
    model.update(train_samples=3, val_samples=1)

    arrays = data.arrays({"model": model}, str(tmp_path / "mine.npz"))

    assert [part.tolist() for part in data.samples(arrays, "train")] == [
        *([0, 1, 2], [0, 1, 2]),
        [1, 2, 3],
    ]
    assert data.samples(arrays, "val")[2].tolist() == [5]


@pytest.mark.parametrize(
    ("arrays", "settings", "message"),
    [
        ({"sample_weight_train": [1, 2, 3]}, {}, "4 samples in x_train and 3 in sample_weight_tr"),
        ({"sample_weight": [1, 2, 3, 4]}, {}, "returns sample_weight, which rnnbench does not"),
        ({"sample_weight_train": [1, 2, 3, 4]}, {"class_weight": {0: 2}}, "both given: remove one"),
    ],
)
def test_weights_that_would_be_ignored_are_refused(
    tmp_path: Path, arrays: dict, settings: dict, message: str
) -> None:
    model = {**write_model(tmp_path, **arrays), **settings}

    with pytest.raises(Refusal, match=message):
        data.arrays({"model": model}, str(tmp_path / "mine.npz"))


NETWORK = """
def build(keras):
    inputs = keras.layers.Input((5, 3))
    outputs = keras.layers.Dense(10, activation="softmax")(keras.layers.LSTM(4)(inputs))
    model = keras.models.Model(inputs, outputs)
    model.compile(keras.optimizers.SGD(0.5), "sparse_categorical_crossentropy")
    return model
"""
TRAINED = """
import json, sys
from rnnworker import certify
job = json.loads(sys.argv[1])
rnn = {"name": "keras", "implementation": "keras"}
arrays, _ = certify.samples_of(job)
session = certify.Trial(job, rnn, arrays).session
session.load_weights(session.dump_weights())
plain = certify.Trial(job, rnn, arrays).session.model
batch = next(certify.first_batches(arrays, job["config"], 1))
plain.set_weights(session.model.get_weights())
ours = session.train_batch(*batch)
weights = {int(name): weight for name, weight in job["config"]["model"]["class_weight"].items()}
x, y = batch[:2]
history = plain.fit(x, y, class_weight=weights, epochs=1, batch_size=len(x), verbose=0).history
after = zip(session.model.get_weights(), plain.get_weights())
print(json.dumps([ours, history["loss"][0], max(float(abs(a - b).max()) for a, b in after)]))
"""


@pytest.mark.parametrize("build", ["current", "keras3_torch", "keras3_jax", "tf_2_15"])
def test_a_step_is_that_of_fit_with_the_same_class_weights(
    build: str, tmp_path: Path, tmp_path_factory
) -> None:
    write(tmp_path, {"net.py": NETWORK})
    job = certificate_job(settings_of(build)["framework"], "of_model", {})
    kept = {name: MODEL[name] for name in ("data", "sequence", "features", "data_seed", "batch")}
    counts = {"train_samples": 64, "val_samples": 32}
    weights = {str(number): 1.0 + number for number in range(10)}
    job["config"]["model"] = {"function": f"{tmp_path}/net.py:build", **kept, **counts}
    job["config"]["model"]["class_weight"] = weights

    ours, of_keras, apart = answer_of(build, TRAINED, json.dumps(job), temporary=tmp_path_factory)

    assert ours == pytest.approx(of_keras, rel=1e-6)
    assert apart < 1e-6


TAGGER = """
def build(keras):
    inputs = keras.layers.Input((5, 3))
    outputs = keras.layers.Dense(1)(keras.layers.LSTM(4, return_sequences=True)(inputs))
    model = keras.models.Model(inputs, outputs)
    model.compile(keras.optimizers.SGD(0.5), "mse")
    return model

def prepare(source, config):
    import numpy
    x = numpy.ones((40, 5, 3), "float32")
    weights = numpy.arange(40, dtype="float32")
    if config["model"]["steps_too"]:
        weights = numpy.repeat(weights[:, None], 5, axis=1)
    return {"x_train": x, "y_train": x[:, :, :1], "x_val": x[:10], "y_val": x[:10, :, :1],
            "sample_weight_train": weights}
"""


def test_one_weight_per_sample_for_a_loss_of_each_step_is_refused(
    tmp_path: Path, tmp_path_factory
) -> None:
    """`findings/a_weight_per_sample_is_read_as_one_per_step.sh`: with batch 5 and 5 steps, Keras 3
    would weigh the steps without a word."""
    write(tmp_path, {"net.py": TAGGER})
    jobs = []
    for steps_too in (False, True):
        rnn = {"of_model": {"name": "keras", "implementation": "keras"}}
        job = certificate_job(settings_of("current")["framework"], "of_model", rnn)
        job["config"]["model"] = {
            "function": f"{tmp_path}/net.py:build",
            "data": {"prepare": f"{tmp_path}/net.py:prepare"},
            "batch": 5,
            "steps_too": steps_too,
        }
        jobs.append(job)

    found = answer_of("current", ALL_CERTIFICATES, json.dumps(jobs), temporary=tmp_path_factory)
    (for_samples,), (for_steps,) = (each["implementations"].values() for each in found)

    assert for_samples["status"] == "refused"
    assert "sample_weight_train has one weight for each sample" in for_samples["why"]
    assert for_steps["status"] == "certified", for_steps["why"]
