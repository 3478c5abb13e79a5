"""Ordinary Keras models as people write them, ``tests/models``, in every Keras."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path

import numpy
import pytest

from rnnworker.precision import TOLERANCE
from tests.conftest import ROOT
from tests.worker.building import ALL_CERTIFICATES, answer_of, certificate_job, equal, settings_of

MODELS = ROOT / "tests" / "models"
# Network → the loss of the grid, None if it compiles itself.
LOSSES = {
    "addition_rnn": "categorical_crossentropy",
    "bidirectional_imdb": None,
    "seq2seq": "categorical_crossentropy",
    "text_generation": "categorical_crossentropy",
    "weather": None,
    "captioning": "sparse_categorical_crossentropy",
    "ocr": None,
    "stateful": "mse",
    "hierarchical": "categorical_crossentropy",
    "masking": "mse",
    "custom_step": "mse",
    "multi_output": None,
    "weighted": None,
}
# What kernels other than Keras's own loop lack. Keras 3 passes no mask to a layer that is called
# with initial states, so that ``captioning`` has none there.
LACKING = {"masking": r"line \d+: layer \w+: (block|native) (has no masks|computes LSTM only)"}
LACKING_IN_KERAS_2 = {**LACKING, "captioning": r"line \d+: layer \w+: block has no masks"}
# What whole frameworks lack.
WITHOUT_WEIGHTS = {"weighted": "sample weights and class_weight are for"}
REFUSED = {
    "tf_1_15": WITHOUT_WEIGHTS,
    "tf_1_2": WITHOUT_WEIGHTS,
    "keras3_jax": {"stateful": r"stateful.py, line \d+: .* stateful=True: Keras on jax"},
}
OWN_STEP = "not compared with the gradient: the model has a train_step of its own"
IMPLEMENTATIONS = {
    "current": ("keras", "block"),
    "keras3_torch": ("keras", "native"),
    "keras3_jax": ("keras", "native"),
    "tf_2_15": ("keras", "block"),
    "tf_1_15": ("keras",),
    "tf_1_2": ("keras",),
}
# Compiling the steps of a network takes time, so torch alone tries all. TensorFlow 2.21 leaves out
# three whose layers other networks have. Keras on jax and Keras 2 try what they build or train
# differently; TensorFlow 1 is the slowest, so 1.15 leaves out two directions, which its cases of
# `test_worker_conformance` have.
PLAIN = ("addition_rnn", "text_generation", "weather")
OTHERWISE = ("captioning", "stateful", "masking", "custom_step", "multi_output")
IN_TENSORFLOW_1 = ("bidirectional_imdb", "seq2seq", "weighted")
SOME = {
    "current": tuple(name for name in LOSSES if name not in PLAIN),
    "keras3_jax": OTHERWISE,
    "tf_2_15": (*OTHERWISE, *IN_TENSORFLOW_1),
    "tf_1_15": ("seq2seq", "weighted"),
    "tf_1_2": IN_TENSORFLOW_1,
}
# Each framework compares the pair where states and masks pass between layers. Where layers only
# stand in a row, one implementation is certified, and torch, which is quick, compares all pairs.
ALONE = {
    "bidirectional_imdb": "block",
    "ocr": "block",
    "hierarchical": "block",
    "multi_output": "block",
    "custom_step": "block",
    "weighted": "keras",
}
ROWS = 32


def implementations(network: str, build: str) -> tuple[str, ...]:
    both = IMPLEMENTATIONS[build]
    if build == "keras3_torch" or network not in ALONE or len(both) == 1:
        return both
    return both[:1] if ALONE[network] == "keras" else both[1:]


def job_of(network: str, build: str, folder: Path) -> dict:
    module = importlib.import_module(f"tests.models.{network}")
    content, stream = {}, numpy.random.RandomState(0)
    for part in ("train", "val"):
        for name, array in module.arrays(ROWS, stream).items():
            tree, dot, rest = name.partition(".")
            content[f"{tree}_{part}{dot}{rest}"] = array
    numpy.savez(folder / f"{network}.npz", **content)
    choices = {
        name: {"implementation": name, "name": name} for name in implementations(network, build)
    }
    job = certificate_job(settings_of(build)["framework"], "of_model", choices)
    job["config"]["model"] = {
        "function": f"{MODELS / network}.py:build",
        "data": {"prepare": "rnnworker.readers.given:prepare"},
        "batch": 16,
        "epochs": 1,
    }
    if LOSSES[network]:
        training = {"loss": LOSSES[network], "optimizer": {"name": "adam"}}
        job["config"]["model"].update(training)
    return {**job, "dataset": str(folder / f"{network}.npz")}


@pytest.mark.parametrize("build", IMPLEMENTATIONS)
def test_each_network_is_certified_or_refused_with_the_right_reason(
    build: str, tmp_path: Path, tmp_path_factory
) -> None:
    is_keras_2 = build.startswith("tf_")
    networks = SOME.get(build, tuple(LOSSES))
    lacking = LACKING_IN_KERAS_2 if is_keras_2 else LACKING
    refused = REFUSED.get(build, {})
    jobs = [job_of(network, build, tmp_path) for network in networks]

    found = answer_of(build, ALL_CERTIFICATES, json.dumps(jobs), temporary=tmp_path_factory)
    for network, certificate in zip(networks, found, strict=True):
        assert set(certificate["implementations"]) == set(implementations(network, build))
        for rnn, result in certificate["implementations"].items():
            why = str(result["why"])
            reason = refused.get(network)
            if rnn not in ("keras", "unrolled"):
                reason = lacking.get(network, reason)
            if reason:
                assert result["status"] == "refused", (network, rnn, why)
                assert re.search(reason, why), (network, rnn, why)
            else:
                assert result["status"] == "certified", (network, rnn, why)
                for part in ("outputs", "gradients"):
                    assert result[part] <= TOLERANCE["float32"][part], (network, rnn, part)
                steps = result["applied"]["cpu_1"]
                right = (None, OWN_STEP) if network == "custom_step" else (0, None)
                assert (steps["off"], steps["why"]) == right, (network, rnn, steps)
        assert all(map(equal, certificate["pairs"])), (network, certificate["pairs"])


def test_states_that_torch_would_lose_are_refused(tmp_path: Path, tmp_path_factory) -> None:
    """`findings/a_stateful_layer_forgets_under_mixed_precision_on_torch.sh` and
    `findings/stateful_lstm_cannot_be_trained_on_torch.sh`."""
    plain = job_of("stateful", "keras3_torch", tmp_path)
    jobs = [plain]
    for rnn, precision in (("keras", "mixed_bfloat16"), ("auto", "float32")):
        config = {**plain["config"], "precision": precision}
        choice = [{"name": rnn, "rnn": {"implementation": rnn, "name": rnn}}]
        jobs.append({**plain, "config": config, "implementations": choice})

    found = answer_of(
        "keras3_torch", ALL_CERTIFICATES, json.dumps(jobs), temporary=tmp_path_factory
    )
    (trained, _), (mixed,), (auto,) = (each["implementations"].values() for each in found)
    assert trained["status"] == "certified"
    assert re.search(r"line \d+: .* keeps no states under mixed_bfloat16", mixed["why"])
    assert re.search(
        r"line \d+: .* cannot train it if cuDNN may be used: write rnn=keras", auto["why"]
    )


PADDED = """
def build(keras):
    layers = keras.layers
    inputs = layers.Input((6,))
    words = layers.Embedding(9, 4, mask_zero=True)(inputs)
    read = layers.Bidirectional(layers.LSTM(5, return_sequences=True))(words)
    return keras.Model(inputs, layers.Dense(1)(layers.LSTM(4)(read)))
"""


def test_an_unrolled_layer_in_two_directions_is_not_certified_with_padding(
    tmp_path: Path, tmp_path_factory
) -> None:
    """`findings/unrolled_bidirectional_layer_loses_its_backward_half.sh`; `keras` and `cell` are
    what docs/models.md says to compare in a model with masks."""
    stream = numpy.random.RandomState(0)
    content = {}
    for part in ("train", "val"):
        words = stream.randint(1, 9, (ROWS, 6))
        lengths = stream.randint(1, 6, ROWS)
        content[f"x_{part}"] = words * (numpy.arange(6) < lengths[:, None])
        content[f"y_{part}"] = words.mean(1, keepdims=True).astype("float32")
    numpy.savez(tmp_path / "padded.npz", **content)
    (tmp_path / "padded.py").write_text(PADDED)
    names = ("keras", "cell", "unrolled")
    choices = {name: {"implementation": name, "name": name} for name in names}
    job = certificate_job(settings_of("current")["framework"], "of_model", choices)
    job["config"]["model"] = {
        "function": f"{tmp_path}/padded.py:build",
        "data": {"prepare": "rnnworker.readers.given:prepare"},
        **{"batch": 16, "epochs": 1, "loss": "mse", "optimizer": {"name": "adam"}},
    }
    job["dataset"] = str(tmp_path / "padded.npz")

    (found,) = answer_of("current", ALL_CERTIFICATES, json.dumps([job]), temporary=tmp_path_factory)
    same = {(pair["a"], pair["b"]): equal(pair) for pair in found["pairs"]}
    assert same == {
        ("keras", "cell"): True,
        ("keras", "unrolled"): False,
        ("cell", "unrolled"): False,
    }


def test_networks_import_nothing_of_rnnbench() -> None:
    for network in LOSSES:
        assert "rnn" + "worker" not in (MODELS / f"{network}.py").read_text()
        assert "rnn" + "bench" not in (MODELS / f"{network}.py").read_text()
