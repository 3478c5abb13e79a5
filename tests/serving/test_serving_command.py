"""``rnnbench compare --predict`` from a model of one's own to the answer."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy
import pytest
import yaml

from rnnbench.cli import main
from rnnbench.records.predictions import Results
from tests.worker.building import answer, python_of

MODEL = """
import keras
from keras import layers


class Doubled(layers.Layer):
    def call(self, x):
        return x + x


def build(keras):
    words = keras.Input((None,), dtype="int32", name="words")
    numbers = keras.Input((None, 3), name="numbers")
    x = layers.Embedding(20, 4, mask_zero=True)(words)
    x = layers.Bidirectional(layers.GRU(5))(x)
    y = layers.LSTM(4, go_backwards=True)(layers.Masking()(numbers))
    both = layers.Concatenate()([x, y])
    return keras.Model([words, numbers], layers.Dense(2, activation="softmax")(both))


def with_own_layer():
    inputs = keras.Input((9, 3))
    return keras.Model(inputs, layers.GRU(4)(Doubled()(inputs)))
"""


# A runtime of one's own: Keras without its graph.
OWN_RUNTIME = """
from rnnserve import keras_models

FIXED_SHAPES = False
CODE = "# mine"


def export(model, arrays, folder):
    keras_models.save(model, folder)


def load(folder, threads):
    model = keras_models.load(folder, threads)
    return lambda arrays: keras_models.flat(model(arrays[0]))
"""


@pytest.fixture
def files(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch) -> Path:
    python, _ = python_of("serving", tmp_path_factory)
    build = {"about": "", "framework": "keras3_tensorflow", "python": str(python)}
    (tmp_path / "runtimes.yaml").write_text(yaml.safe_dump(build | {"environment": {}}))
    (tmp_path / "mine.py").write_text(MODEL)
    stream = numpy.random.default_rng(0)
    words = stream.integers(1, 20, (12, 9))
    numbers = stream.normal(size=(12, 9, 3))
    numpy.savez(tmp_path / "two.npz", **{"x_val.words": words, "x_val.numbers": numbers})
    numpy.savez(tmp_path / "one.npz", x_val=numbers)
    monkeypatch.setenv("RNNBENCH_TIMING_LOCK", str(tmp_path / "timing.lock"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    return tmp_path


def compared(files: Path, model: str, data: str, *runtimes: str) -> Results:
    file = files / "answer.json"
    command = ["compare", *runtimes, "--predict", "--model", str(files / model)]
    command += ["--data", str(files / data), "--build", str(files / "runtimes.yaml")]
    command += ["--batch", "1,8", "--rounds", "2", "--json", str(file)]
    command += ["--out", str(files / "page")]
    assert main(command) == 0
    return msgspec.json.decode(file.read_bytes(), type=Results)


def test_two_inputs_with_masks_and_both_directions(
    files: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    names = ("framework", "onnxruntime_operator", "openvino")
    results = compared(files, "mine.py:build", "two.npz", *names)
    keras, onnx, openvino = results.runtimes
    assert results.reference == "float64 formulas"
    assert results.cases == [
        *("batch 1", "batch 8", "longer", "shorter"),
        *("padded behind", "padded before", "gaps"),
    ]
    assert keras.unequal is None and onnx.unequal is None
    assert [batch.batch for batch in onnx.batches] == [1, 8]
    assert onnx.peak_bytes < keras.peak_bytes / 2  # its process has not imported TensorFlow
    # OpenVINO 2026.4 reverses a masked sequence of a free length from its padding.
    assert openvino.unequal is not None and not openvino.batches
    printed = capfd.readouterr().out
    assert "For one sample, `onnxruntime_operator` answers in " in printed
    assert "≠, not timed: " in printed
    assert "`openvino` does not" in (files / "page/report.md").read_text()
    assert "session = onnxruntime.InferenceSession(" in printed


def test_a_layer_of_one_s_own_is_refused_or_served(files: Path) -> None:
    (files / "own.py").write_text(OWN_RUNTIME)
    (files / "doubled.yaml").write_text("implementation: own.py\n")
    names = ("framework", "onnxruntime_operator", str(files / "doubled.yaml"))
    results = compared(files, "mine.py:with_own_layer", "one.npz", *names)
    keras, onnx, own = results.runtimes
    assert own.name == "doubled" and own.batches and own.difference < 1e-6
    assert keras.batches and not onnx.batches
    assert onnx.refused == "layer doubled: Doubled is not a class of Keras"
    assert results.reference.startswith("Keras in float")


def test_a_saved_model(files: Path) -> None:
    python = yaml.safe_load((files / "runtimes.yaml").read_text())["python"]
    script = (
        "import sys, keras; layers = keras.layers; "
        "keras.Sequential([layers.Input((9, 3)), layers.GRU(4)]).save(sys.argv[1])"
    )
    answer(python, f"{script}; print(0)", files / "mine.keras", KERAS_BACKEND="tensorflow")
    runtimes = ("onnxruntime_operator", "litert", "tf_function")
    results = compared(files, "mine.keras", "one.npz", *runtimes)
    assert results.compared_with == "onnxruntime_operator"
    assert results.biases_changed == 1
    for runtime in results.runtimes:
        assert runtime.difference is not None and runtime.difference < 1e-6
        assert len(runtime.batches) == 2
    # TensorFlow's functions are sources in this folder, until their process ends.
    assert not list(files.glob("temporary/__autograph_generated_file*"))


def test_data_that_do_not_fit(files: Path, capfd: pytest.CaptureFixture[str]) -> None:
    command = ["compare", "framework", "litert", "--predict", "--model", f"{files}/mine.py:build"]
    command += ["--data", str(files / "one.npz"), "--build", str(files / "runtimes.yaml")]
    assert main(command) == 1
    assert "for the inputs words, numbers of the model" in capfd.readouterr().err
