"""Certificates of real layers in TensorFlow: every deliberate fault is detected and named, options
change the function, and a build whose steps apply other gradients is noticed. That correct
implementations pass is checked in `test_worker_conformance`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy
import pytest

from rnnbench.sources.certificates import Batch, wrong
from rnnworker import precision
from tests.worker.building import ALL_CERTIFICATES, answer_of, certificate_job, equal, write

# Implementation → what is said about it, and the implementation that it changes.
FAULTS = {
    "swapped_gate": ("outputs differ", "keras"),
    "dropped_bias": ("outputs differ", "keras"),
    "forget_bias": ("outputs differ", "block_cell"),
    "clip": ("outputs differ", "block_cell"),
    "registered_gradient": ("gradients differ", "block"),
    "one_gate": ("gradients differ", "block"),
    "other_kernel": ("it ran while instead of block_cell", "block_cell"),
    "warm_start": ("did not start from the canonical weights", "keras"),
    "lossy": ("do not survive a round trip", "keras"),
    "raises": ("RuntimeError: {folder}/raises.py, line 4: on purpose", "block"),
}
RELU = {"activation": "relu", "recurrent_activation": "hard_sigmoid"}
WITH_OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {"implementation": "keras"},
    "relu": {"implementation": "keras", "options": RELU},
    "relu_unrolled": {"implementation": "unrolled", "options": RELU},
    "no_bias": {"implementation": "keras", "options": {"use_bias": False}},
    "typo": {"implementation": "keras", "options": {"activaton": "relu"}},
}
FAULTY = """
from unittest import mock
import numpy
from rnnlayers.block import BlockLSTM
from rnnlayers.block_cell import BlockCell
from rnnlayers.sequences import joint_weights
from rnnworker.frameworks.keras3_tensorflow import Session
from rnnworker.recurrent import Recurrent


def swapped(arrays):
    for name in ("kernel", "recurrent", "bias"):
        i, f, c, o = numpy.split(arrays[name], 4, axis=-1)
        arrays[name] = numpy.concatenate([i, c, f, o], axis=-1)
    return arrays


def lossy(arrays):
    return {name: array.astype("float16").astype("float32") for name, array in arrays.items()}


def warm(arrays):
    # Changes the canonical weights as if they were trained, and no others.
    bias = arrays["bias"]
    if not numpy.any(bias[: len(bias) // 4]):
        arrays["kernel"] = arrays["kernel"] + numpy.float32(0.01)
    return arrays


def computing(kernel, target, value):
    # The kernel with `value` in place of `target`.
    class Kernel:
        with_dropout = True

        def inner_loop(self, *arguments):
            with mock.patch(target, value):
                return kernel.inner_loop(self, *arguments)

    return Kernel


def off_in_one_gate(tensorflow, cell, dtype):
    # The same weights, whose gradient is 1 % larger in the forget gate.
    matrix, bias = joint_weights(tensorflow, cell, dtype)
    factor = tensorflow.constant(numpy.repeat([1.0, 1.01, 1.0, 1.0], cell.units), dtype)
    scaled = factor * matrix
    return scaled + tensorflow.stop_gradient(matrix - scaled), bias


LOADING = {
    "swapped_gate": swapped,
    "dropped_bias": lambda arrays: dict(arrays, bias=0 * arrays["bias"]),
    "warm_start": warm,
    "lossy": lossy,
}
COMPUTING = {
    # TensorFlow's defaults.
    "forget_bias": computing(BlockCell, "rnnlayers.block_cell.FORGET_BIAS", 1.0),
    "clip": computing(BlockCell, "rnnlayers.block_cell.CELL_CLIP", 3.0),
    # The gradient that TensorFlow registers.
    "registered_gradient": computing(
        BlockLSTM,
        "tensorflow.custom_gradient",
        lambda function: lambda *inputs: function(*inputs)[0],
    ),
    "one_gate": computing(BlockLSTM, "rnnlayers.block.joint_weights", off_in_one_gate),
    "no_dropout": computing(BlockLSTM, "rnnlayers.sequences.dropped", lambda cell, x, on: x),
}
right_init, right_loading = Recurrent.__init__, Recurrent.from_canonical


def init(self, keras, config):
    right_init(self, keras, config)
    self.kernel = COMPUTING.get(self.name, self.kernel)


def from_canonical(self, layer, arrays):
    if self.name in LOADING:
        arrays = LOADING[self.name](dict(arrays))
    right_loading(self, layer, arrays)


Recurrent.__init__, Recurrent.from_canonical = init, from_canonical
right_compile = Session.compile


def compile(self, optimizer=None):
    if self.recurrent.name == "trains_bias":
        self.recurrent.layers[0].cell.bias.trainable = True
    right_compile(self, optimizer)
    own = self.model.optimizer
    if self.recurrent.name == "clips_together" and own.clipnorm:
        own.clipnorm, own.global_clipnorm = None, own.clipnorm


Session.compile = compile
"""
RAISES = """
class Kernel:
    def inner_loop(self, sequences, initial_state, mask, training=False):
        raise RuntimeError("on purpose")
"""
WITH_DROPOUT = """
def build(keras, recurrent, config):
    inputs = keras.layers.Input(shape=(8, 5))
    hidden = keras.layers.LSTM(6, dropout=0.3)(inputs)
    return keras.models.Model(inputs, keras.layers.Dense(10, activation="softmax")(hidden))


def build_frozen(keras, config):
    layers = keras.layers
    settings = dict(config["model"])  # reads all of its keys
    hidden = layers.LSTM(settings["units"])
    model = keras.Sequential([layers.Input((8, 5)), hidden, layers.Dense(10, "softmax")])
    model.layers[0].cell.bias.trainable = False
    model.compile(keras.optimizers.SGD(0.5, clipnorm=0.01), "sparse_categorical_crossentropy")
    return model


def build_accumulating(keras, config):
    model = build_frozen(keras, config)
    optimizer = keras.optimizers.SGD(0.5, clipnorm=0.01, gradient_accumulation_steps=8)
    model.compile(optimizer, "sparse_categorical_crossentropy")
    return model
"""
WITHOUT_RECURRENT = """
def build(keras, recurrent, config):
    layers = keras.layers
    inputs = layers.Input(shape=(8, 5))
    hidden = layers.Dropout(0.5)(layers.Flatten()(inputs))
    return keras.models.Model(inputs, layers.Dense(10, activation="softmax")(hidden))
"""
KERAS = {"keras": {"implementation": "keras", "kernels": ["while"]}}
STOPS = """
    class Stops(keras.models.Model):
        def train_step(self, data):
            self.stop_training = True
            return super().train_step(data)

    return Stops("""
# The file of a model without a recurrent layer → changes of it, and what is said about it.
OF_MODELS = {
    "unused": ("", "", "build of {file} makes no LSTM, GRU or SimpleRNN: add one, or"),
    "nothing": ("return", "made =", "TypeError: build of {file}:build returned NoneType, not a"),
    "flat": ("layers.Flatten()", "layers.Conv2D(2, 3)", "ValueError: {file}, line 5: "),
    "metric": ("    return", "    config['model']['metrics'][:] = ['no']\n    return",
               "ValueError: model {file}:build: Could not interpret metric identifier"),
    "stops": ("    return keras.models.Model(", STOPS, "{file}:build: the model sets stop_"),
    "infinite": ("", "", "ValueError: x_val of {folder}/infinite.py:prepare has NaN or infinite"),
}  # fmt: skip
INFINITE = """
from rnnworker.models import shape


def prepare(source, config):
    arrays = shape.prepare(source, config)
    arrays["x_val"][0, 0] = float("inf")
    return arrays
"""


def job(rnn: dict[str, dict[str, Any]], **model: Any) -> dict[str, Any]:
    shape = {"sequence": 8, "features": 5, "units": 6}
    return certificate_job("keras3_tensorflow", "lstm", rnn, **shape, **model)


def why_wrong(implementation: dict[str, Any]) -> str | None:
    """What the controller says about its outputs and gradients."""
    batches = implementation.get("probed", {}).get("cpu_1", {}).get("batches", [])
    return wrong(msgspec.convert(batches, list[Batch]), precision.TOLERANCE["float32"], "cpu_1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("own")


@pytest.fixture(scope="module")
def certificates(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One process with TensorFlow makes all of them."""
    kernels = {"keras": ["while"], "block": ["block"], "block_cell": ["block_cell"]}
    faulty = {
        name: {"implementation": changed, "name": name, "kernels": kernels[changed]}
        for name, (_, changed) in FAULTS.items()
    }
    faulty["raises"]["implementation"] = f"{folder}/raises.py"
    faulty["other_kernel"]["implementation"] = "keras"
    write(folder, {"raises.py": RAISES, "dense.py": WITHOUT_RECURRENT, "drops.py": WITH_DROPOUT})
    drops = {
        name: {"implementation": "keras" if name == "keras" else "block", "name": name}
        for name in ("keras", "block", "no_dropout")
    }
    frozen = {
        name: {"implementation": "keras", "name": name}
        for name in ("keras", "trains_bias", "clips_together")
    }
    frozen["block"] = {"implementation": "block", "name": "block"}
    accumulating = {name: frozen[name] for name in ("keras", "block", "clips_together")}
    own = dict.fromkeys(("loss", "optimizer", "metrics"))
    write(folder, {"still.py": WITHOUT_RECURRENT.replace("layers.Dropout(0.5)", "")})
    none = {"none": {"implementation": "none"}}
    for name, (old, new, _) in OF_MODELS.items():
        write(folder, {f"{name}.py": WITHOUT_RECURRENT.replace(old, new) + INFINITE})
    data = {"data": {"prepare": f"{folder}/infinite.py:prepare"}}
    jobs = {
        "faults": job({**KERAS, **faulty}),
        "dropout": job(drops, function=f"{folder}/drops.py:build"),
        "frozen": job(frozen, function=f"{folder}/drops.py:build_frozen", **own),
        "accumulating": job(
            accumulating,
            function=f"{folder}/drops.py:build_accumulating",
            **own,
        ),
        "none": job(none, function=f"{folder}/dense.py:build"),
        # Its own optimizer changes nothing, and each step has the same samples.
        "still": job(
            none,
            function=f"{folder}/still.py:build",
            optimizer={"name": "sgd", "learning_rate": 0.0},
            train_samples=16,
        ),
        "options": job(WITH_OPTIONS),
        **{
            name: job(
                KERAS if name == "unused" else none,
                function=f"{folder}/{name}.py:build",
                metrics=["accuracy"],
                **(data if name == "infinite" else {}),
            )
            for name in OF_MODELS
        },
    }
    script = FAULTY + ALL_CERTIFICATES
    made = answer_of("current", script, json.dumps([*jobs.values()]), temporary=tmp_path_factory)
    return dict(zip(jobs, made, strict=True))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_detected_and_named(certificates: dict, folder: Path, fault: str) -> None:
    result = certificates["faults"]["implementations"][fault]
    assert FAULTS[fault][0].format(folder=folder) in f"{result['why']}; {why_wrong(result)}"
    assert (result["status"] == "failed") is (result["why"] is not None)


def test_dropout_that_a_kernel_leaves_out_changes_what_it_trains(certificates: dict) -> None:
    found = certificates["dropout"]
    for result in found["implementations"].values():
        assert (result["status"], result["why"], why_wrong(result)) == ("certified", None, None)
    pairs = {(pair["a"], pair["b"]): pair for pair in found["pairs"]}
    assert equal(pairs["keras", "block"])
    assert not equal(pairs["keras", "no_dropout"]) and pairs["keras", "no_dropout"]["weights"] > 0.1


def test_what_is_trained_and_clipped_in_another_way_is_found_by_its_weights(
    certificates: dict,
) -> None:
    pairs = {(pair["a"], pair["b"]): pair for pair in certificates["frozen"]["pairs"]}
    assert equal(pairs["keras", "block"]), pairs["keras", "block"]
    said = "ValueError: lstm/bias is trained in one of them only"
    assert pairs["keras", "trains_bias"]["why"] == said
    clipped = pairs["keras", "clips_together"]
    assert not equal(clipped) and clipped["first_loss"] == 0
    assert clipped["weights"] > 0.01 and clipped["worst_array"]


def test_gradients_that_are_added_up_over_steps_are_compared_when_they_are_applied(
    certificates: dict,
) -> None:
    """Keras 3's ``gradient_accumulation_steps=8`` changes no weight in the first seven steps."""
    pairs = {(pair["a"], pair["b"]): pair for pair in certificates["accumulating"]["pairs"]}
    assert equal(pairs["keras", "block"]), pairs["keras", "block"]
    clipped = pairs["keras", "clips_together"]
    assert not equal(clipped) and clipped["weights"] > 0.01
    assert clipped["loss_curve"] > 1e-5


@pytest.mark.parametrize("name", OF_MODELS)
def test_a_fault_of_the_model_or_its_data_names_the_file(
    certificates: dict, folder: Path, name: str
) -> None:
    (result,) = certificates[name]["implementations"].values()
    expected = OF_MODELS[name][2].format(file=f"{folder}/{name}.py", folder=folder)
    status = "refused" if name in ("unused", "stops") else "failed"
    assert result["status"] == status and result["why"].startswith(expected)


def test_a_fault_does_not_affect_others(certificates: dict) -> None:
    result = certificates["faults"]["implementations"]["keras"]
    assert (result["status"], result["why"], why_wrong(result)) == ("certified", None, None)
    layers = result["probed"]["cpu_1"]["batches"]
    sizes = [(each["rows"], each["training"]) for each in layers]
    assert sizes == [(16, True), (16, False)]
    assert [each["gradients"] is None for each in layers] == [False, True]


SPLIT = """
from rnnworker.frameworks import replicas
split = replicas.parts_of
# Each replica gets the first half of each batch.
replicas.parts_of = lambda *arguments: [part for part in split(*arguments)[::2] for _ in range(2)]
"""


def test_a_wrong_split_among_replicas_is_noticed(tmp_path_factory) -> None:
    made = job(KERAS)
    made["config"]["device"]["replicas"] = 2
    script = SPLIT + ALL_CERTIFICATES
    (found,) = answer_of("current", script, json.dumps([made]), temporary=tmp_path_factory)
    applied = found["implementations"]["keras"]["applied"]["cpu_1"]
    assert applied["off"] == applied["steps"] == 5


def test_a_model_without_a_recurrent_layer_is_judged_by_its_steps(certificates: dict) -> None:
    result = certificates["none"]["implementations"]["none"]
    assert (result["status"], result["why"]) == ("certified", None)
    assert {result[name] for name in ("outputs", "gradients", "round_trip", "function")} == {None}
    assert len(result["loss_curve"]) == 5
    assert result["applied"]["cpu_1"]["off"] == 0


def test_steps_are_checked_with_plain_sgd_and_losses_are_of_the_model_s_own_optimizer(
    certificates: dict,
) -> None:
    result = certificates["still"]["implementations"]["none"]
    assert (result["status"], result["why"]) == ("certified", None)
    assert (result["applied"]["cpu_1"]["steps"], result["applied"]["cpu_1"]["off"]) == (5, 0)
    assert len(set(result["loss_curve"])) == 1


def test_options_change_the_certified_function(certificates: dict) -> None:
    results = certificates["options"]["implementations"]
    assert {name for name, result in results.items() if result["status"] == "failed"} == {"typo"}
    assert results["plain"]["function"]["activation"] == "tanh"
    relu = {**RELU, "recurrent_activation": "hard_sigmoid of Keras 3", "use_bias": True}
    assert results["relu"]["function"] == relu
    pairs = certificates["options"]["pairs"]
    same = {(pair["a"], pair["b"]) for pair in pairs if equal(pair)}
    assert same == {("relu", "relu_unrolled")}


APPLIED = """
import json, os, sys
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
from rnnworker import certify

job = json.loads(sys.argv[1])
arrays, _ = certify.samples_of(job)
rnn = {"implementation": "none"}
trial = certify.Trial(job, rnn, arrays, certify.OPTIMIZER)
print(json.dumps(certify.applied(trial, {"gradients": 1e-4})))
"""
# The model of the issue, on images of noise.
MNIST_MLP = {
    "function": "rnnworker.models.mnist_mlp:build", "units": 512, "dropout": 0.2, "batch": 128,
    "data": {"prepare": "rnnworker.models.mnist_mlp:prepare"}, "train_samples": None,
    "val_samples": None,
}  # fmt: skip


@pytest.mark.parametrize("as_published", [False, True])
def test_tensorflow_1_2_applies_its_gradients_except_as_published(
    as_published: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    stream, arrays = numpy.random.RandomState(0), {}
    for part in ("train", "test"):
        arrays[f"x_{part}"] = stream.randint(0, 256, (4000, 28, 28)).astype("uint8")
        arrays[f"y_{part}"] = stream.randint(0, 10, 4000).astype("uint8")
    file = tmp_path_factory.mktemp("images") / "noise.npz"
    numpy.savez(file, **arrays)
    request = certificate_job("keras206_tensorflow1", "lstm", {}, **MNIST_MLP)
    request["config"]["build"]["as_published"] = as_published
    arguments = (APPLIED, json.dumps({**request, "dataset": str(file)}))
    applied = answer_of("tf_1_2", *arguments, temporary=tmp_path_factory)
    assert (applied["steps"], applied["why"]) == (30, None)
    assert (applied["off"] > 0) == as_published
