"""Each model of ``conf/model`` builds and trains in Keras 3, in one process with TensorFlow."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy
import pytest

from rnnbench.grid.expand import expand
from rnnbench.grid.experiment import Experiment
from tests.conftest import ROOT
from tests.worker.building import answer

SCRIPT = """
import json, sys
from rnnworker import canonical_weights
from rnnworker.events import Events
from rnnworker.frameworks.keras3_tensorflow import Session
from rnnworker.turns import Turns

results = {}
for name, job in json.load(open(sys.argv[1])).items():
    session = Session(job["config"], 1)
    session.load_data(job["dataset"])
    session.build()
    session.load_weights(canonical_weights.initial(session.layers(), 0))
    before = session.evaluate()
    session.train_steps(2)
    optimizer = session.model.optimizer
    session.reset()
    reset = session.evaluate()
    epochs = []
    details = session.fit(epochs.append, None, Turns(Events(2)))
    after = session.evaluate()
    results[name] = {
        "parameters": session.model_facts()["parameters"],
        "optimizer": session.model_facts()["optimizer"],
        "rate": float(optimizer.learning_rate),
        "iterations": int(optimizer.iterations.numpy()),
        "before": before, "reset": reset, "after": after,
        "epochs": epochs, "stopped": details["stopped"],
        "layers": [type(layer).__name__ for layer in session.model.layers],
    }
print(json.dumps(results))
"""
SMALL = (
    "model.batch=4 model.epochs=2 measure.warmup_steps=0",
    "model=mnist_mlp,mnist_cnn,mnist_rnn,cifar10_cnn",
    "model=imdb_fasttext model.bigrams=10",
    "model=imdb_bilstm,imdb_lstm model.sequence=12",
    "model=lstm_textgen model.characters=5 model.sequence=8",
    "model=shape_short model.sequence=5 model.train_samples=8 model.val_samples=4",
    "model=adding model.sequence=12 model.train_samples=8 model.val_samples=4",
)
# Weights and biases, calculated by hand from the shapes of the layers.
PARAMETERS = {
    "mnist_mlp": 784 * 512 + 512 + 512 * 512 + 512 + 512 * 10 + 10,
    "mnist_cnn": 320 + 18496 + 12 * 12 * 64 * 128 + 128 + 1290,
    "cifar10_cnn": 1250858,
    "imdb_fasttext": 20010 * 50 + 51,
    "imdb_bilstm": 20000 * 128 + 2 * 4 * 64 * (128 + 64 + 1) + 129,
    "imdb_lstm": 20000 * 128 + 4 * 128 * (128 + 128 + 1) + 129,
    "lstm_textgen": 4 * 128 * (5 + 128 + 1) + 129 * 5,
    "mnist_rnn": 4 * 128 * (28 + 129) + 4 * 128 * (128 + 129) + 129 * 32 + 330,
    "shape_short": 4 * 320 * (123 + 321) + 3210,
    "adding": 4 * 128 * (2 + 129) + 129,
}


def write_data(folder: Path) -> dict[str, Path]:
    stream = numpy.random.RandomState(0)

    def labelled(shape: tuple[int, ...], classes: int) -> dict[str, numpy.ndarray]:
        return {
            f"{kind}_{part}": stream.randint(0, *high).astype("uint8")
            for part in ("train", "test")
            for kind, high in (("x", (256, (8, *shape))), ("y", (classes, 8)))
        }

    lists = {"y_train": numpy.arange(8) % 2, "y_test": numpy.arange(8) % 2}
    for part in ("train", "test"):
        lists[f"x_{part}_values"] = stream.randint(1, 30000, 80)
        lists[f"x_{part}_offsets"] = numpy.arange(0, 81, 10)
    numpy.savez(folder / "mnist.npz", **labelled((28, 28), 10))
    numpy.savez(folder / "cifar10.npz", **labelled((32, 32, 3), 10))
    numpy.savez(folder / "imdb.npz", **lists)
    (folder / "nietzsche.txt").write_text("".join("abcde"[i % 5] for i in range(200)))
    return {path.stem: path for path in folder.iterdir()}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict]:
    folder = tmp_path_factory.mktemp("models")
    files = write_data(folder)
    grids = tuple((*SMALL[0].split(), *grid.split()) for grid in SMALL[1:])
    experiment = Experiment("small", "", "", grids, file=ROOT / "conf/experiment/small.yaml")
    jobs = {}
    for point in expand(experiment, [ROOT / "conf"]):
        file = files.get(point.config["dataset"]["name"])
        jobs[point.choices["model"]] = {
            "config": point.config,
            "dataset": str(file) if file else None,
        }
    (folder / "jobs.json").write_text(json.dumps(jobs))
    return answer(sys.executable, SCRIPT, folder / "jobs.json")


def test_parameter_counts_are_those_of_the_published_layers(results: dict[str, dict]) -> None:
    assert {name: result["parameters"] for name, result in results.items()} == PARAMETERS


def test_training_starts_from_the_reset_weights(results: dict[str, dict]) -> None:
    for name, result in results.items():
        assert result["reset"] == result["before"], name
        assert result["after"]["loss"] != result["before"]["loss"], name
        assert [epoch["epoch"] for epoch in result["epochs"]] == [1, 2], name
        assert result["stopped"] is None, name
        assert result["epochs"][1]["val_loss"] == pytest.approx(result["after"]["loss"]), name


def test_all_models_but_the_adding_problem_have_an_accuracy(results: dict[str, dict]) -> None:
    for name, result in results.items():
        expected = {"loss"} if name == "adding" else {"loss", "acc"}
        assert set(result["after"]) == expected, name
        assert (result["epochs"][0]["val_acc"] is None) is (name == "adding"), name


def test_augmented_epochs_follow_each_other_without_a_gap(results: dict[str, dict]) -> None:
    """The time of an epoch includes making its images; a validation separates two epochs."""
    first, second = results["cifar10_cnn"]["epochs"]
    gap = second["start"] - first["start"] - first["seconds"] - first["val_seconds"]
    assert 0 <= gap < 0.2
    assert results["cifar10_cnn"]["iterations"] == 4


def test_the_optimizer_has_the_settings_of_the_yaml(results: dict[str, dict]) -> None:
    optimizers = {name: result["optimizer"] for name, result in results.items()}
    assert optimizers["mnist_cnn"]["name"].lower() == "adadelta"
    assert optimizers["mnist_cnn"]["learning_rate"] == 1.0
    assert optimizers["mnist_cnn"]["rho"] == pytest.approx(0.95)
    assert optimizers["mnist_mlp"]["epsilon"] == pytest.approx(1e-8)
    assert optimizers["lstm_textgen"]["learning_rate"] == pytest.approx(0.01)
    schedule = optimizers["cifar10_cnn"]["learning_rate"]["config"]
    assert (schedule["decay_rate"], schedule["decay_steps"]) == (1e-6, 1)
    # After 4 steps, by Keras 2's formula lr / (1 + decay · iterations).
    assert results["mnist_rnn"]["rate"] == pytest.approx(1e-3 / (1 + 1e-5 * 4), rel=1e-6)
