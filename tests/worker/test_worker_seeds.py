"""Models run in every build on a CPU, from the same weights on the same data: all in the newest
TensorFlow, in each other framework those that need different parts of it, and the others are built
there; one in further builds of a framework.

The worker's own ``run.main`` executes tiny runs one after another, in one process per build;
``tf_2_21_xla``, which differs only in its config, shares ``tf_2_21``'s.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy
import pytest

from rnnbench.datasets.pins import md5_of
from rnnbench.grid.expand import expand
from rnnbench.grid.experiment import Experiment
from rnnbench.grid.point import GridPoint
from rnnbench.running.assemble import facts_of, phases_of
from rnnworker.frameworks.names import FRAMEWORKS
from tests.conftest import ROOT
from tests.worker.building import answer_of, settings_of, write_digits
from tests.worker.test_worker_models import mnist, names_of_numpy_1, reviews, write_cifar10

# Those that a machine without a GPU can make. Of those that differ in a variable of the worker's
# environment only, one is run.
LIKE_NO_ONEDNN = {"tf_2_21_onednn_avx2", "tf_2_21_onednn_sse41"}
BUILDS = [
    path.stem
    for path in sorted((ROOT / "conf" / "build").glob("*.yaml"))
    if "cuda" not in path.stem and path.stem not in LIKE_NO_ONEDNN
]
SHARED = {"tf_2_21_xla": "tf_2_21"}
# Without dropout: their losses depend on the weights, the data and the optimizer only.
DETERMINISTIC = ("adding", "digits_rnn", "imdb_fasttext", "lstm_textgen", "shape_long")
DETERMINISTIC += ("shape_short",)
# Weights and biases, calculated by hand from the shapes of the layers; LSTMs have 4 units.
PARAMETERS = {
    "mnist_mlp": 784 * 512 + 512 + 512 * 512 + 512 + 512 * 10 + 10,
    "mnist_cnn": 320 + 18496 + 12 * 12 * 64 * 128 + 128 + 1290,
    "cifar10_cnn": 1250858,
    "imdb_fasttext": 20010 * 50 + 51,
    "imdb_bilstm": 50 * 128 + 2 * 4 * 4 * (128 + 4 + 1) + 9,
    "imdb_lstm": 50 * 128 + 4 * 4 * (128 + 4 + 1) + 5,
    "lstm_textgen": 4 * 4 * (5 + 4 + 1) + 5 * 5,
    "mnist_rnn": 4 * 4 * (196 + 5) + 4 * 4 * (4 + 5) + 5 * 32 + 330,
    "digits_rnn": 4 * 4 * (8 + 5) + 50,
    "shape_short": 4 * 4 * (123 + 5) + 50,
    "shape_long": 4 * 4 * (123 + 5) + 50,
    "adding": 4 * 4 * (2 + 5) + 5,
}
MODELS = tuple(PARAMETERS)
# Once in each framework: images and a convolution with augmentation (and a decay of the learning
# rate), words, both directions, characters, and a regression without accuracy.
SOME = ("cifar10_cnn", "imdb_fasttext", "imdb_bilstm", "lstm_textgen", "adding")
FRAMEWORKS_RUN = ("tf_2_15", "tf_1_2", "tf_1_15", "keras3_torch", "keras3_jax")
MODELS_OF = {"current": MODELS, **dict.fromkeys(FRAMEWORKS_RUN, SOME)}
# Each Keras and its backend once: what their optimizers and their film reviews are.
KERAS_OF = (*MODELS_OF, "tf_2_21_keras2")
RUNS = [(build, model) for build in BUILDS for model in MODELS_OF.get(build, ("digits_rnn",))]
BUILT = [(build, model) for build in FRAMEWORKS_RUN for model in MODELS if model not in SOME]
SMALL = (
    "model.batch=4 device=cpu_2"
    " measure.warmup_steps=1 measure.warmup_seconds=0 measure.evaluate_calls=0"
)
GRIDS = (
    "model=mnist_mlp,mnist_cnn",
    "model=cifar10_cnn",
    "model=imdb_fasttext model.bigrams=10",
    "model=imdb_bilstm,imdb_lstm model.sequence=4 model.words=50 model.units=4",
    "model=lstm_textgen model.characters=5 model.sequence=4 model.units=4"
    " model.held_out=0.3 model.train_samples=8 model.val_samples=8",
    "model=mnist_rnn model.sequence=4 model.units=4",
    "model=digits_rnn model.units=4",
    "model=shape_short,shape_long,adding model.sequence=6 model.units=4"
    " model.train_samples=8 model.val_samples=8",
)
SAMPLES = 8  # two whole batches: XLA compiles for each size of one


SCRIPT = """
import functools, json, os, sys, time, types
import numpy
from rnnworker import canonical_weights, data, frameworks, run
from rnnworker.readers import imdb

make_images = data.epoch_images


def slow_images(images, config, epoch):
    # Long enough to be seen in the times of the epochs.
    if config["model"]["data"].get("augment"):
        time.sleep(1)
    return make_images(images, config, epoch)


def built(job):
    session = frameworks.open_session(job["config"], job["threads"])
    session.load_data(job["dataset"], job["pinned_md5"])
    session.build()
    layers = session.layers()
    weights = session.dump_weights()
    session.load_weights(weights)
    measured = {
        "parameters": session.model_facts(layers)["parameters"],
        "weights_sha256": canonical_weights.digest(weights),
        "started_weights_sha256": canonical_weights.digest(session.dump_weights()),
    }
    return [{"event": "facts", "measured": measured}]


reviews = json.loads(sys.argv[1])  # None: neither reviews nor steps are asked for
if sys.argv[2].endswith("-current"):
    data.epoch_images = slow_images
results = []
for path in sys.argv[2:]:
    with open(path) as file:
        job = json.load(file)
    if job["is_run"]:
        with open(path + ".events", "wb") as file:
            os.environ["RNNWORKER_EVENTS"] = str(file.fileno())
            run.main([path])
        with open(path + ".events") as file:
            results.append([json.loads(line) for line in file])
    else:
        try:
            results.append(built(job))
        except Exception as error:
            results.append([{"event": "error", "message": str(error)}])
    if job["config"]["build"]["framework"].startswith("keras2_"):
        from tensorflow import keras
    else:
        import keras
    keras.backend.clear_session()

if reviews is None:
    print(json.dumps([results, None, None]))
    sys.exit()
# The build's Keras reads the film reviews from a file that the build's NumPy has pickled.
source = data.source(reviews["dataset"], reviews["pinned_md5"])
numpy.savez(path + ".npz", **source)
load = keras.datasets.imdb.load_data
load.__globals__["get_file"] = lambda *arguments, **settings: path + ".npz"
if numpy.__version__.startswith("1."):
    numpy.load = functools.partial(numpy.load, allow_pickle=True)
(x_train, y_train), (x_val, y_val) = load(num_words=50)
theirs = {"x_train": x_train, "y_train": y_train, "x_val": x_val, "y_val": y_val}
ours = imdb.reviews(source, {"words": 50})
reviews = [
    {name: [numpy.ravel(row).tolist() for row in rows] for name, rows in arrays.items()}
    for arrays in (theirs, ours)
]
# One step of one weight: with a gradient of 1e-6, which is small compared with the root of epsilon,
# of 1e-3 for Adadelta, and of an embedding's row that is twice in the batch, with gradients of 1.
layers, changes = keras.layers, {}
session = frameworks.open_session(job["config"], job["threads"])
session._watched = types.SimpleNamespace(compiled=lambda model: (None, None))
adam = {"name": "adam", "learning_rate": 1e-3, "epsilon": 1e-7}
rmsprop = {"name": "rmsprop", "learning_rate": 1e-3, "rho": 0.9, "epsilon": 1e-8}
adadelta = {"name": "adadelta", "learning_rate": 1.0, "rho": 0.9, "epsilon": 1e-8}
cases = (("adam", adam), ("rmsprop", rmsprop), ("adadelta", adadelta), ("rows", adam))
for case, settings in cases:
    if case == "rows":
        x, y = numpy.zeros((1, 2), "int32"), numpy.full((1, 1), -1.0, "f4")
        inputs = layers.Input(shape=(2,), dtype="int32")
        outputs = layers.GlobalAveragePooling1D()(layers.Embedding(1, 1)(inputs))
    else:
        x, y = numpy.full((1, 1), 1e-3, "f4"), numpy.full((1, 1), -5e-4, "f4")
        if case == "adadelta":
            x = numpy.ones((1, 1), "f4")
        inputs = layers.Input(shape=(1,))
        outputs = layers.Dense(1, use_bias=False)(inputs)
    model = keras.models.Model(inputs, outputs)
    session.config = dict(job["config"], model={"loss": "mse", "optimizer": settings})
    model.compile(**session._compile_arguments())
    model.set_weights([numpy.zeros((1, 1), "f4")])
    model.train_on_batch(x, y)
    changes[case] = -float(model.get_weights()[0][0, 0])
print(json.dumps([results, reviews, changes]))
"""


@pytest.fixture(scope="module")
def points() -> list[GridPoint]:
    """One grid point for each model and build that are run or built."""
    axis = "build=" + ",".join(BUILDS)
    grids = tuple(
        (*SMALL.split(), axis, f"model.epochs={1 + ('cifar10' in grid)}", *grid.split())
        for grid in GRIDS
    )
    experiment = Experiment(name="seeds", grids=grids, file=ROOT / "conf/experiment/seeds.yaml")
    every = expand(experiment, [ROOT / "conf"])
    return [point for point in every if (build_of(point), point.choices["model"]) in RUNS + BUILT]


def write_data(folder: Path) -> dict[str, dict[str, Any]]:
    """Writes some training and validation samples in the format of each dataset. Returns name of
    the choice → ``dataset`` and ``pinned_md5`` of a job. What is pickled has the names of NumPy
    1."""
    stream = numpy.random.RandomState(0)
    numpy.savez(folder / "mnist.npz", **mnist(SAMPLES, SAMPLES))
    write_digits(folder / "digits.npz", SAMPLES, SAMPLES)
    lists = [[stream.randint(1, 60, 5 + i).tolist() for i in range(SAMPLES)] for _ in range(2)]
    # Both labels: with one, what Keras 3 does differently in embeddings would count more.
    labels = dict.fromkeys(("y_train", "y_test"), numpy.arange(SAMPLES) % 2)
    with names_of_numpy_1():
        numpy.savez(folder / "imdb.npz", **reviews(train=lists[0], test=lists[1]) | labels)
    (folder / "nietzsche.txt").write_text("".join("abcde"[i % 5] for i in range(100)))
    sizes = (2, 2, 2, 1, 1, SAMPLES)
    images = [stream.randint(0, 256, (size, 3072)).astype("uint8") for size in sizes]
    with names_of_numpy_1():
        write_cifar10(folder / "cifar10.tar.gz", images)
    return {
        path.name.partition(".")[0]: {"dataset": str(path), "pinned_md5": md5_of(path)}
        for path in folder.iterdir()
    }


@pytest.fixture(scope="module")
def runs(points: list[GridPoint], tmp_path_factory: pytest.TempPathFactory) -> Callable:
    """A function of the build: the events of each run by (build, model); in those of `KERAS_OF`,
    under ``reviews`` the film reviews as the build's Keras and as the worker reads them, and under
    ``changes`` the change of a weight in one step."""
    data = write_data(tmp_path_factory.mktemp("data"))

    @cache
    def of_process(build: str) -> dict[Any, Any]:
        folder, files = tmp_path_factory.mktemp(build), {}
        for point in points:
            its_build, model = build_of(point), point.choices["model"]
            if SHARED.get(its_build, its_build) == build:
                files[its_build, model] = path = folder / f"{model}-{its_build}"
                nothing = {"dataset": None, "pinned_md5": None}
                dataset = data.get(point.config["dataset"]["name"], nothing)
                job = {"config": point.config, "threads": 2, **dataset}
                job["is_run"] = (its_build, model) in RUNS
                path.write_text(json.dumps(job))
        reviews = json.dumps(data["imdb"] if build in KERAS_OF else None)
        arguments = (build, SCRIPT, reviews, *files.values())
        events, reviews, changes = answer_of(*arguments, temporary=tmp_path_factory)
        return {**dict(zip(files, events, strict=True)), "reviews": reviews, "changes": changes}

    return lambda build: of_process(SHARED.get(build, build))


def build_of(point: GridPoint) -> str:
    return point.choices["build"]


def test_all_models_and_builds_are_run(points: list[GridPoint]) -> None:
    assert {point.skip for point in points} == {None}
    pairs = {(build_of(point), point.choices["model"]) for point in points}
    assert pairs == {*RUNS, *BUILT}
    assert {build for build, _ in pairs} == set(BUILDS)
    settings = {build: settings_of(build) for build in (*LIKE_NO_ONEDNN, "tf_2_21_no_onednn")}
    texts = ("about", "environment")
    assert len({str({**each, **dict.fromkeys(texts)}) for each in settings.values()}) == 1
    frameworks = {build_of(point): point.config["build"]["framework"] for point in points}
    assert {frameworks[build] for build in MODELS_OF} == set(frameworks.values())
    models = {path.stem for path in (ROOT / "conf" / "model").glob("*.yaml")}
    # Two of one layer, without data; a stack, which Keras 2.0.6 cannot have.
    assert models == set(MODELS) | {"padded", "samples_612235", "shape_stack"}


@pytest.mark.parametrize(("build", "model"), RUNS)
def test_it_runs(build: str, model: str, runs: Callable) -> None:
    events = runs(build)[build, model]
    assert [event for event in events if event["event"] == "error"] == []
    assert events[-1]["event"] == "finished"
    epochs = [event for event in events if event["event"] == "epoch"]
    assert [epoch["epoch"] for epoch in epochs] == [1, 2][: 1 + (model == "cifar10_cnn")]
    accuracy = model != "adding"
    assert {(epoch["val_acc"] is not None) for epoch in epochs} == {accuracy}
    assert set(evaluated(events)) >= ({"loss", "acc"} if accuracy else {"loss"})
    measured = facts_of(events, "measured")
    assert measured["parameters"] == PARAMETERS[model]
    assert measured["weights_sha256"] == measured["started_weights_sha256"]
    assert measured["optimizer"]


@pytest.mark.parametrize(("build", "model"), BUILT)
def test_it_is_built(build: str, model: str, runs: Callable) -> None:
    events = runs(build)[build, model]
    assert [event for event in events if event["event"] == "error"] == []
    measured = facts_of(events, "measured")
    assert measured["parameters"] == PARAMETERS[model]
    assert measured["weights_sha256"] == measured["started_weights_sha256"]


@pytest.mark.parametrize("model", MODELS)
def test_every_build_has_the_same_start_and_loss(model: str, runs: Callable) -> None:
    """The same weights; and, without dropout and augmentation, whose draws differ, the same loss
    after two steps, except for the effects of an epsilon and of rounding."""
    started, losses = {}, {}
    for build in (build for build, its_model in RUNS + BUILT if its_model == model):
        try:
            events = runs(build)[build, model]
        except pytest.skip.Exception:
            continue
        started[build] = facts_of(events, "measured").get("weights_sha256")
        if (build, model) in RUNS:
            losses[build] = evaluated(events)["loss"]
    assert len(set(started.values())) <= 1, started
    assert None not in losses.values(), losses
    if model in DETERMINISTIC and losses:
        assert max(losses.values()) / min(losses.values()) < 1 + 1e-3, losses


def test_augmented_epochs_follow_each_other_without_a_gap(runs: Callable) -> None:
    """The time of an epoch includes making its images, here a second; a validation separates two
    epochs."""
    events = runs("current")["current", "cifar10_cnn"]
    first, second = (event for event in events if event["event"] == "epoch")
    gap = second["start"] - first["start"] - first["seconds"] - first["val_seconds"]
    assert first["seconds"] > 1 and second["seconds"] > 1
    assert 0 <= gap < 1


def test_the_optimizer_has_the_settings_of_the_yaml(runs: Callable) -> None:
    results = runs("current")
    measured = {model: facts_of(results["current", model], "measured") for model in MODELS}
    optimizers = {model: measured[model]["optimizer"] for model in MODELS}
    assert optimizers["mnist_cnn"]["name"].lower() == "adadelta"
    assert optimizers["mnist_cnn"]["learning_rate"] == 1.0
    assert optimizers["mnist_cnn"]["rho"] == pytest.approx(0.95)
    assert optimizers["mnist_mlp"]["epsilon"] == pytest.approx(1e-8)
    assert optimizers["lstm_textgen"]["learning_rate"] == pytest.approx(0.01)
    rate = optimizers["cifar10_cnn"]["learning_rate"]
    assert rate["class_name"] == "InverseTimeDecay"
    assert (rate["config"]["decay_rate"], rate["config"]["decay_steps"]) == (1e-6, 1)


def evaluated(events: list[dict[str, Any]]) -> dict[str, Any]:
    """The result of evaluating the trained model."""
    (phase,) = (phase for phase in phases_of(events) if phase.name == "evaluate")
    return phase.facts["result"]


@pytest.mark.parametrize("build", KERAS_OF)
def test_reviews_are_in_the_order_of_keras_2_0_6(build: str, runs: Callable) -> None:
    """Row by row against the build's own ``imdb.load_data``. Later versions differ only in the
    order of the test samples."""
    theirs, ours = runs(build)["reviews"]
    assert len(ours["x_train"]) == len(ours["x_val"]) == SAMPLES
    assert (ours["x_train"], ours["y_train"]) == (theirs["x_train"], theirs["y_train"])
    tests = [list(zip(each["x_val"], each["y_val"], strict=True)) for each in (theirs, ours)]
    assert (tests[0] == tests[1]) == (build == "tf_1_2")
    assert sorted(tests[0]) == sorted(tests[1])


@pytest.mark.parametrize("build", KERAS_OF)
def test_the_first_step_of_the_optimizers(
    build: str, points: list[GridPoint], runs: Callable
) -> None:
    """Calculated by hand: Adam by Keras's formula in every build (torch's own would change the
    weight by 9.1e-4; a step count that is incremented before it is read, as may happen in Keras
    2.0.6 without `_count_after_reading`, by 1.8e-4), RMSprop and repeated rows by the tables
    behind the report's text."""
    (framework,) = {each.config["build"]["framework"] for each in points if build_of(each) == build}
    changes = runs(build)["changes"]
    gradient, m, v = 1e-6, 0.1 * 1e-6, 0.001 * 1e-12
    correction = (1 - 0.999) ** 0.5 / (1 - 0.9)
    assert changes["adam"] == pytest.approx(1e-3 * correction * m / (v**0.5 + 1e-7), rel=1e-3)
    v = 0.1 * gradient**2
    divisor = v**0.5 + 1e-8 if FRAMEWORKS[framework].epsilon_outside_root else (v + 1e-8) ** 0.5
    assert changes["rmsprop"] == pytest.approx(1e-3 * gradient / divisor, rel=1e-3)
    changed = (1e-8 / (0.1 * 1e-3**2 + 1e-8)) ** 0.5
    assert changes["adadelta"] == pytest.approx(1e-3 * changed, rel=1e-3)
    # The gradient of a row is 2 · 1/2 at each position: v is 1 + 1 or (1 + 1)², and m is 2.
    v = 2.0 if FRAMEWORKS[framework].squares_per_occurrence else 4.0
    assert changes["rows"] == pytest.approx(1e-3 * correction * 0.2 / (0.001 * v) ** 0.5, rel=1e-3)
