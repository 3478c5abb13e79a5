"""Every workload of the seeds runs in every build for CPUs, from the same weights on the same data.

The worker's own ``run.main`` does one tiny run after the other, in one process for each build, two
at a time; ``tf_2_21_xla``, which differs in its config alone, shares ``tf_2_21``'s process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from rnnbench.grid.point import GridPoint
from rnnbench.tables.optimizers import ROWS_APART, TO_THE_ROOT
from tests.conftest import ROOT
from tests.worker.building import build_python
from tests.worker.seeds import SAMPLES, cells, cpu_builds, write_data

BUILDS = cpu_builds()
SHARED = {"tf_2_21_xla": "tf_2_21"}
MODELS = (
    *("adding", "cifar10_cnn", "digits_rnn", "imdb_bilstm", "imdb_fasttext", "imdb_lstm"),
    *("lstm_textgen", "mnist_cnn", "mnist_mlp", "mnist_rnn", "shape_long", "shape_short"),
)
# Without dropout: what they learn depends on the weights, the data and the optimizer alone.
CERTAIN = ("adding", "digits_rnn", "imdb_fasttext", "lstm_textgen", "shape_long", "shape_short")
SCRIPT = """
import functools, json, os, sys
sys.path.insert(0, sys.argv[1])
import numpy
from rnnworker import data, frameworks, run
from rnnworker.frameworks import arrays_session
from rnnworker.readers import imdb

for path in sys.argv[3:]:
    with open(path + ".events", "wb") as file:
        os.environ["RNNWORKER_EVENTS"] = str(file.fileno())
        run.main([path])
    with open(path) as file:
        job = json.load(file)
    if job["config"]["build"]["framework"].startswith("keras2_"):
        from tensorflow import keras
    else:
        import keras
    # A process of the worker does one run: in TensorFlow 1 all models would share one graph.
    keras.backend.clear_session()
    arrays_session._SESSION_CACHE.clear()
    if job["config"]["dataset"]["name"] == "imdb":
        reviews = job

# The build's Keras reads the film reviews, from a file that its own NumPy has pickled.
source = data.source(reviews["dataset"], reviews["pinned_md5"])
numpy.savez(sys.argv[2] + ".npz", **source)
load = keras.datasets.imdb.load_data
load.__globals__["get_file"] = lambda *arguments, **settings: sys.argv[2] + ".npz"
if numpy.__version__.startswith("1."):
    numpy.load = functools.partial(numpy.load, allow_pickle=True)
(x_train, y_train), (x_val, y_val) = load(num_words=50)
theirs = {"x_train": x_train, "y_train": y_train, "x_val": x_val, "y_val": y_val}
ours = imdb.reviews(source, 50, (None, None))
told = [
    {name: [numpy.ravel(row).tolist() for row in rows] for name, rows in one.items()}
    for one in (theirs, ours)
]
# One step of one weight: with a gradient of 1e-6, small beside epsilon's root, and of an
# embedding's row that the batch holds twice, with gradients of 1.
layers, moved = keras.layers, {}
session = frameworks.open_session(job["config"], job["threads"])
adam = {"name": "adam", "learning_rate": 1e-3, "epsilon": 1e-7}
rmsprop = {"name": "rmsprop", "learning_rate": 1e-3, "rho": 0.9, "epsilon": 1e-8}
for case, stated in (("adam", adam), ("rmsprop", rmsprop), ("rows", adam)):
    if case == "rows":
        x, y = numpy.zeros((1, 2), "int32"), numpy.full((1, 1), -1.0, "f4")
        inputs = layers.Input(shape=(2,), dtype="int32")
        outputs = layers.GlobalAveragePooling1D()(layers.Embedding(1, 1)(inputs))
    else:
        x, y = numpy.full((1, 1), 1e-3, "f4"), numpy.full((1, 1), -5e-4, "f4")
        inputs = layers.Input(shape=(1,))
        outputs = layers.Dense(1, use_bias=False)(inputs)
    model = keras.models.Model(inputs, outputs)
    model.compile(loss="mse", optimizer=session.optimizer(stated))
    model.set_weights([numpy.zeros((1, 1), "f4")])
    model.train_on_batch(x, y)
    moved[case] = -float(model.get_weights()[0][0, 0])

with open(sys.argv[2], "w") as file:
    json.dump({"reviews": told, "moved": moved}, file)
"""


@pytest.fixture(scope="module")
def asked() -> list[GridPoint]:
    return cells(BUILDS)


@pytest.fixture(scope="module")
def processes(
    request: pytest.FixtureRequest, asked: list[GridPoint], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future]]:
    """Build → what its process will have left, for the builds of the tests that are selected."""
    data = write_data(tmp_path_factory.mktemp("data"))
    asked_of = [
        item.callspec.params
        for item in request.session.items
        if item.path == request.path and hasattr(item, "callspec")
    ]
    # A test that names no build takes those that others ask for, or all.
    selected = {params["build"] for params in asked_of if "build" in params} or set(BUILDS)
    with ThreadPoolExecutor(2) as pool:
        futures = {
            build: pool.submit(
                _runs,
                [one for one in asked if SHARED.get(build_of(one), build_of(one)) == build],
                data,
                tmp_path_factory,
            )
            for build in sorted({SHARED.get(one, one) for one in selected})
        }
        yield {build: futures[SHARED.get(build, build)] for build in selected}
        for future in futures.values():
            future.cancel()


def _runs(
    chosen: list[GridPoint], data: dict, temporary: pytest.TempPathFactory
) -> dict[Any, list]:
    """The events of each run, by (build, model); the film reviews as the build's Keras and as the
    worker reads them, under ``reviews``; how far one step took a weight, under ``moved``."""
    build = chosen[0].config["build"]
    version, python = build["python"], sys.executable
    if build.get("lock"):
        python = str(build_python(build["lock"], version, temporary))
    folder = temporary.mktemp(build["name"])
    files = {}
    for cell in chosen:
        path = folder / f"{cell.choices['model']}-{build_of(cell)}"
        dataset = data.get(cell.config["dataset"]["name"], {})
        job = {"config": cell.config, "threads": 2, "dataset": dataset.get("path")}
        path.write_text(json.dumps({**job, "pinned_md5": dataset.get("pinned_md5")}))
        files[build_of(cell), cell.choices["model"]] = path
    variables = {name: str(value) for name, value in build["environment"].items()}
    with (folder / "log").open("wb") as log:
        subprocess.run(
            [python, "-W", "ignore", "-c", SCRIPT,
             str(ROOT / "src"), str(folder / "beside"), *map(str, files.values())],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=True, timeout=900,
            env={**os.environ, "PYTHONPATH": "", **variables},
        )  # fmt: skip
    beside = json.loads((folder / "beside").read_text())
    return {**beside, **{key: events(path) for key, path in files.items()}}


def events(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(f"{path}.events").read_text().splitlines()]


def build_of(cell: GridPoint) -> str:
    return cell.choices["build"]


def test_all_workloads_are_asked_of_all_builds(asked: list[GridPoint]) -> None:
    assert {one.skip for one in asked} == {None}
    pairs = {(build_of(one), one.choices["model"]) for one in asked}
    assert pairs == {(build, model) for build in BUILDS for model in MODELS}
    models = {path.stem for path in (ROOT / "conf" / "model").glob("*.yaml")}
    assert models == set(MODELS) | {"padded", "samples_612235"}  # of one layer, without data


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("build", BUILDS)
def test_it_runs(build: str, model: str, processes: dict[str, Future]) -> None:
    told = processes[build].result()[build, model]
    assert [one for one in told if one["event"] == "error"] == []
    assert told[-1]["event"] == "finished"
    assert [one["epoch"] for one in told if one["event"] == "epoch"] == [1]
    measured = facts(told)
    assert measured["weights_sha256"] == measured["started_weights_sha256"]
    assert measured["optimizer"]


@pytest.mark.parametrize("model", MODELS)
def test_every_build_starts_alike_and_learns_alike(
    model: str, processes: dict[str, Future]
) -> None:
    """The same weights; and without dropout and augmenting, whose draws differ, the same loss after
    two steps, to what an epsilon and rounding make of it."""
    started, losses = {}, {}
    for build, future in processes.items():
        if isinstance(future.exception(), pytest.skip.Exception):
            continue
        told = future.result()[build, model]
        started[build] = facts(told)["weights_sha256"]
        (losses[build],) = (
            one["details"]["result"]["loss"]
            for one in told
            if one["event"] == "phase_end" and one["phase"] == "evaluate"
        )
    assert len(set(started.values())) <= 1, started
    assert None not in losses.values(), losses
    if model in CERTAIN and losses:
        assert max(losses.values()) / min(losses.values()) < 1 + 1e-3, losses


def facts(told: list[dict[str, Any]]) -> dict[str, Any]:
    """What the run has told as measured."""
    found: dict[str, Any] = {}
    for one in told:
        if one["event"] == "facts":
            found.update(one.get("measured", {}))
    return found


@pytest.mark.parametrize("build", BUILDS)
def test_reviews_come_in_the_order_of_keras_2_0_6(build: str, processes: dict[str, Future]) -> None:
    """Row by row against the build's own ``imdb.load_data``. Later versions have another order of
    the test samples, and nothing else."""
    theirs, ours = processes[build].result()["reviews"]
    assert len(ours["x_train"]) == len(ours["x_val"]) == SAMPLES
    assert (ours["x_train"], ours["y_train"]) == (theirs["x_train"], theirs["y_train"])
    tests = [list(zip(one["x_val"], one["y_val"], strict=True)) for one in (theirs, ours)]
    assert (tests[0] == tests[1]) == (build == "tf_1_2")
    assert sorted(tests[0]) == sorted(tests[1])


@pytest.mark.parametrize("build", BUILDS)
def test_what_one_step_of_the_optimizers_does(
    build: str, asked: list[GridPoint], processes: dict[str, Future]
) -> None:
    """By hand, for a first step: Adam as Keras has it in every build (torch's own would move
    9.1e-4; a count of steps that is raised before it is read, as Keras 2.0.6 may, 1.8e-4),
    RMSprop and repeated rows by what the report takes its words from."""
    (framework,) = {one.config["build"]["framework"] for one in asked if build_of(one) == build}
    moved = processes[build].result()["moved"]
    gradient, m, v = 1e-6, 0.1 * 1e-6, 0.001 * 1e-12
    correction = (1 - 0.999) ** 0.5 / (1 - 0.9)
    assert moved["adam"] == pytest.approx(1e-3 * correction * m / (v**0.5 + 1e-7), rel=1e-3)
    v = 0.1 * gradient**2
    over = v**0.5 + 1e-8 if framework in TO_THE_ROOT else (v + 1e-8) ** 0.5
    assert moved["rmsprop"] == pytest.approx(1e-3 * gradient / over, rel=1e-3)
    # A row's gradient is 2 · 1/2 at each place: v is 1 + 1 or (1 + 1)², and m 2.
    v = 2.0 if framework in ROWS_APART else 4.0
    assert moved["rows"] == pytest.approx(1e-3 * correction * 0.2 / (0.001 * v) ** 0.5, rel=1e-3)
