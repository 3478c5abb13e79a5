"""Checkpoints are converted between CuDNN's layers, Keras's layers and canonical arrays, between
TensorFlow 1.15 and Keras 3, in both directions and with equal outputs."""

from __future__ import annotations

import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from rnnbench.commands.exchange import weights
from rnnbench.errors import RecordError
from rnnbench.weights.checkpoints import Cell, read_weights
from tests.worker.building import answer, build_python

# A checkpoint of CuDNN's layers, created by Keras's converter. Without a GPU these layers can be
# built but not called.
OLD = """
import json, shutil, sys
import h5py, numpy
import tensorflow as tf
from tensorflow.python.keras.saving.hdf5_format import preprocess_weights_for_loading

keras, folder = tf.keras, sys.argv[1]
layers, sigmoid = keras.layers, {"recurrent_activation": "sigmoid"}
plain = keras.Sequential([
    layers.LSTM(5, return_sequences=True, input_shape=(7, 3), **sigmoid),
    layers.Bidirectional(layers.GRU(4, reset_after=True, **sigmoid)),
    layers.Dense(2, activation="softmax"),
])
x = numpy.load(folder + "/x.npy")

def converted(layer, features, values):
    layer.build((None, 7, features))
    return preprocess_weights_for_loading(layer, values, "2")

def write_fast(values):
    fast = converted(layers.CuDNNLSTM(5, return_sequences=True), 3, values[:3])
    for start in (3, 6):
        fast += converted(layers.CuDNNGRU(4), 5, values[start : start + 3])
    fast += values[9:]
    shutil.copy(folder + "/plain.h5", folder + "/fast.h5")
    with h5py.File(folder + "/fast.h5", "r+") as file:
        for layer in file.attrs["layer_names"]:
            for name in file[layer].attrs["weight_names"]:
                del file[layer][name]
                file[layer].create_dataset(name, data=fast.pop(0))

if len(sys.argv) > 2:
    plain.load_weights(folder + "/" + sys.argv[2])
else:
    stream = numpy.random.RandomState(0)
    plain.set_weights([stream.normal(size=w.shape, scale=0.5) for w in plain.get_weights()])
    plain.save_weights(folder + "/plain.h5")
    plain.save(folder + "/whole.h5")
    write_fast(plain.get_weights())
print(json.dumps(plain.predict(x).tolist()))
"""
NEW = """
import json, sys
import keras, numpy

folder = sys.argv[1]
layers = keras.layers
model = keras.Sequential([
    layers.Input((7, 3)),
    layers.LSTM(5, return_sequences=True),
    layers.Bidirectional(layers.GRU(4)),
    layers.Dense(2, activation="softmax"),
])
if len(sys.argv) > 2:
    model.load_weights(folder + "/" + sys.argv[2])
else:
    keras.utils.set_random_seed(1)
    model.set_weights([numpy.random.normal(size=w.shape, scale=0.5) for w in model.get_weights()])
    model.save(folder + "/new.keras")
print(json.dumps(model.predict(numpy.load(folder + "/x.npy"), verbose=0).tolist()))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("weights")
    np.save(folder / "x.npy", np.random.default_rng(0).normal(size=(6, 7, 3)).astype("float32"))
    return folder


@pytest.fixture(scope="module")
def old(folder: Path, tmp_path_factory: pytest.TempPathFactory):
    """Runs the model in TensorFlow 1.15; without arguments also writes its checkpoints."""
    python = build_python("tf_1_15", "3.7", tmp_path_factory)

    def outputs(*arguments: str) -> np.ndarray:
        return np.array(answer(python, OLD, folder, *arguments))

    return outputs


@pytest.fixture(scope="module")
def old_outputs(old) -> np.ndarray:
    return old()


def new(folder: Path, *arguments: str) -> np.ndarray:
    return np.array(answer(sys.executable, NEW, folder, *arguments))


def convert(folder: Path, source: str, layout: str, target: str) -> None:
    assert weights([str(folder / source), "--to", layout, "-o", str(folder / target)]) == 0


@pytest.mark.parametrize("source", ["fast.h5", "plain.h5", "whole.h5"])
def test_a_checkpoint_of_tf_1_15_has_equal_outputs_in_keras_3(
    folder: Path, old_outputs: np.ndarray, source: str
) -> None:
    convert(folder, source, "keras", "converted.h5")
    np.testing.assert_allclose(new(folder, "converted.h5"), old_outputs, atol=1e-6)


def test_the_cudnn_layout_equals_that_of_keras_converter(
    folder: Path, old_outputs: np.ndarray
) -> None:
    convert(folder, "plain.h5", "cudnn", "ours.h5")
    expected, ours = (read_raw(folder / name) for name in ("fast.h5", "ours.h5"))
    assert [array.shape for array in expected] == [array.shape for array in ours]
    for array, other in zip(expected, ours, strict=True):
        np.testing.assert_allclose(array, other, atol=1e-7)


def read_raw(path: Path) -> list[np.ndarray]:
    with h5py.File(path) as file:
        return [
            np.asarray(file[layer][name])
            for layer in file.attrs["layer_names"]
            for name in file[layer].attrs["weight_names"]
        ]


def test_the_canonical_layout_is_lossless(folder: Path, old_outputs: np.ndarray) -> None:
    convert(folder, "fast.h5", "canonical", "canonical.npz")
    with np.load(folder / "canonical.npz") as file:
        names = set(file.files)
    assert {name for name in names if "bidirectional" in name} == {
        f"bidirectional/{direction}/{array}"
        for direction in ("forward", "backward")
        for array in ("kernel", "recurrent_kernel", "bias")
    }
    convert(folder, "canonical.npz", "cudnn", "again.h5")
    before, after = (read_raw(folder / name) for name in ("fast.h5", "again.h5"))
    for array, other in zip(before, after, strict=True):
        np.testing.assert_allclose(array, other, atol=1e-7)


def test_a_model_of_keras_3_has_equal_outputs_in_tf_1_15(folder: Path, old) -> None:
    outputs = new(folder)
    convert(folder, "new.keras", "keras", "from_new.h5")
    np.testing.assert_allclose(old("from_new.h5"), outputs, atol=1e-6)
    convert(folder, "new.keras", "cudnn", "new_fast.h5")
    convert(folder, "new_fast.h5", "keras", "new_again.h5")
    np.testing.assert_allclose(new(folder, "new_again.h5"), outputs, atol=1e-6)


def test_unsupported_cells_and_files_are_rejected(tmp_path: Path) -> None:
    def file(width: int, bias: int | tuple[int, ...]) -> Path:
        path = tmp_path / "cell.npz"
        arrays = {"kernel": (3, width), "recurrent_kernel": (4, width), "bias": bias}
        np.savez(path, **{f"rnn/{name}": np.ones(shape) for name, shape in arrays.items()})
        return path

    target = str(tmp_path / "x.h5")
    for width, bias, reason in ((12, 12, "before the product"), (4, 4, "has no gates")):
        with pytest.raises(RecordError, match=reason):
            weights([str(file(width, bias)), "--to", "cudnn", "-o", target])
    assert weights([str(file(12, (2, 12))), "--to", "cudnn", "-o", target]) == 0
    ((cell,),) = (layer.parts for layer in read_weights(Path(target)))
    assert isinstance(cell, Cell) and cell.bias.shape == (2, 12)
    (tmp_path / "no.h5").write_text("no")
    with pytest.raises(RecordError, match=r"no.h5: cannot be read as a Keras checkpoint"):
        read_weights(tmp_path / "no.h5")
    with pytest.raises(RecordError, match="order of the layers"):
        read_weights(tmp_path / "a.weights.h5")
