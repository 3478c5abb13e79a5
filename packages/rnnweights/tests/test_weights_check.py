"""``--check`` finds each cell of the source in the target, or says what it could not run."""

from __future__ import annotations

import json
import os
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rnnweights import command, in_framework
from rnnweights.checkpoint import Refusal
from rnnweights.command import main

pytestmark = pytest.mark.usefixtures("in_this_process")


def model(kind: str) -> Any:
    import keras

    # TensorFlow 2 sets it, and a TensorFlow 1.15 that is started later would inherit it.
    os.environ.pop("TF2_BEHAVIOR", None)
    layers = keras.layers
    if kind == "stateful":
        parts = [keras.Input(batch_shape=(2, 6, 3)), layers.LSTM(4, stateful=True)]
    elif kind == "convolution":
        parts = [keras.Input((4, 6, 2)), layers.ConvLSTM1D(3, 3)]
    else:  # a file of Keras 3 has the GRUs first
        lstm = [layers.LSTM(units, return_sequences=True) for units in (5, 4)]
        gru = layers.Bidirectional(layers.GRU(4, return_sequences=True))
        parts = [keras.Input((6, 3)), lstm[0], gru, lstm[1], layers.GRU(2)]
    built = keras.Sequential(parts)
    stream = np.random.default_rng(0)
    built.set_weights([stream.normal(size=weight.shape) for weight in built.weights])
    return built


def check(source: Path, target: Path, capsys: pytest.CaptureFixture[str]) -> str:
    command = [str(source), "--to", "keras", "-o", str(target), "--check"]
    assert main(command) == 0
    return capsys.readouterr().out.partition("check: ")[2]


EACH_FORMAT = pytest.mark.slow_tier("each format of a file of weights")


@pytest.mark.parametrize(
    "suffix",
    [
        ".keras",
        ".npz",
        pytest.param(".h5", marks=EACH_FORMAT),
        pytest.param(".weights.h5", marks=EACH_FORMAT),
    ],
)
def test_cells_are_found_in_files_with_another_order(
    suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model("mixed").save(tmp_path / "x.h5")
    out = check(tmp_path / "x.h5", tmp_path / f"y{suffix}", capsys)
    ran = "both models" if suffix in (".h5", ".keras") else "each of 5 recurrent cells"
    assert out.startswith(ran)
    assert float(re.findall(r"difference (\S+)", out)[0]) < 1e-5


def test_a_model_runs_with_its_own_batch_size(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model("stateful").save(tmp_path / "x.keras")
    assert check(tmp_path / "x.keras", tmp_path / "y.h5", capsys).startswith("both models")


def test_a_model_without_recurrent_cells_is_run_as_a_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model("convolution").save(tmp_path / "x.keras")
    assert check(tmp_path / "x.keras", tmp_path / "y.h5", capsys).startswith("both models")
    out = check(tmp_path / "x.keras", tmp_path / "y.npz", capsys)
    assert out == "nothing to run: it has no LSTM, GRU or SimpleRNN\n"


def test_an_output_that_is_not_a_number_is_not_overlooked(tmp_path: Path) -> None:
    import keras

    os.environ.pop("TF2_BEHAVIOR", None)
    inputs = keras.Input((6, 3))
    hidden = keras.layers.LSTM(4)(inputs)
    outputs = [keras.layers.Dense(2)(hidden), keras.layers.Dense(2, name="last")(hidden)]
    two = keras.Model(inputs, outputs)
    two.save(tmp_path / "x.keras")
    two.get_layer("last").set_weights([np.full((4, 2), np.nan), np.zeros(2)])
    two.save(tmp_path / "y.keras")
    files = [str(tmp_path / name) for name in ("x.keras", "y.keras")]
    assert np.isnan(in_framework.check(*files)["largest"])


def test_a_check_that_fails_says_that_the_target_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(python: object, action: str, **question: Any) -> Any:
        raise Refusal("the old Python has no Keras 3.", "name another one.")

    monkeypatch.setattr(command, "ask", fails)
    source, target = tmp_path / "x.h5", tmp_path / "y.npz"
    model("stateful").save(source)
    assert main([str(source), "--to", "keras", "-o", str(target), "--check"]) == 1
    out, error = capsys.readouterr()
    assert target.exists() and out == ""
    assert "y.npz: is written, but not checked: the old Python has no Keras 3." in error


def test_functional_models_of_keras_2_are_named_as_both_keras_know_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import keras

    os.environ.pop("TF2_BEHAVIOR", None)
    x = keras.Input((6, 3))
    inner = keras.Model(x, keras.layers.LSTM(4, return_sequences=True)(x))
    y = keras.Input((6, 3))
    keras.Model(y, keras.layers.GRU(2)(inner(y))).save(tmp_path / "x.keras")
    with zipfile.ZipFile(tmp_path / "x.keras") as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    config = files["config.json"].decode()
    assert config.count("keras.src.models.functional") == 2
    old = config.replace("keras.src.models.functional", "keras.src.engine.functional")
    with zipfile.ZipFile(tmp_path / "old.keras", "w") as archive:
        for name, content in {**files, "config.json": old.encode()}.items():
            archive.writestr(name, content)
    out = check(tmp_path / "old.keras", tmp_path / "new.keras", capsys)
    assert out == "both models, random inputs: largest difference 0\n"
    with zipfile.ZipFile(tmp_path / "new.keras") as archive:
        new = json.loads(archive.read("config.json"))
    assert (new["module"], new["class_name"]) == ("keras", "Model")
