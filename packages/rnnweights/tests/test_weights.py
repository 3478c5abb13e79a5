"""Checkpoints are converted between CuDNN's layers, Keras's layers and canonical arrays, between
TensorFlow 1.15 and Keras 3, in both directions and with equal outputs."""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from rnnweights.command import main
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
x, outputs = numpy.load(folder + "/x.npy"), []
if len(sys.argv) == 2:
    keras.utils.set_random_seed(1)
    model.set_weights([numpy.random.normal(size=w.shape, scale=0.5) for w in model.get_weights()])
    model.save(folder + "/new.keras")
    outputs = model.predict(x, verbose=0).tolist()
for file in sys.argv[2:]:
    model.load_weights(folder + "/" + file)
    outputs.append(model.predict(x, verbose=0).tolist())
print(json.dumps(outputs))
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
        return np.array(answer(python, OLD, folder, *arguments, imports=["tensorflow"]))

    return outputs


@pytest.fixture(scope="module")
def old_outputs(old) -> np.ndarray:
    return old()


def new(folder: Path, *files: str) -> np.ndarray:
    """The outputs of the model in Keras 3: with the weights of each of the files, or with new ones,
    which it saves."""
    return np.array(answer(sys.executable, NEW, folder, *files))


SIGMOID = ("--recurrent-activation", "sigmoid")


def convert(folder: Path, source: str, layout: str, target: str, *options: str) -> None:
    arguments = [str(folder / source), "--to", layout, "-o", str(folder / target), "--force"]
    assert main([*arguments, *options]) == 0


@pytest.fixture(scope="module")
def new_outputs(folder: Path) -> np.ndarray:
    return new(folder)


OF_TF_1_15 = ("fast.h5", "plain.h5", "whole.h5")


@pytest.fixture(scope="module")
def in_keras_3(
    folder: Path, old_outputs: np.ndarray, new_outputs: np.ndarray
) -> dict[str, np.ndarray]:
    """Checkpoint → the outputs in Keras 3 with what it was converted to. All of them in one
    process, because it takes longer to start than they do."""
    for source in OF_TF_1_15:
        convert(folder, source, "keras", f"converted_{source}")
    convert(folder, "new.keras", "cudnn", "new_fast.h5")
    convert(folder, "new_fast.h5", "keras", "converted_new_fast.h5")
    sources = (*OF_TF_1_15, "new_fast.h5")
    outputs = new(folder, *(f"converted_{source}" for source in sources))
    return dict(zip(sources, outputs, strict=True))


@pytest.mark.parametrize("source", OF_TF_1_15)
def test_a_checkpoint_of_tf_1_15_has_equal_outputs_in_keras_3(
    old_outputs: np.ndarray, in_keras_3: dict[str, np.ndarray], source: str
) -> None:
    np.testing.assert_allclose(in_keras_3[source], old_outputs, atol=1e-6)


def test_the_cudnn_layout_equals_that_of_keras_converter(
    folder: Path, old_outputs: np.ndarray
) -> None:
    convert(folder, "plain.h5", "cudnn", "ours.h5", *SIGMOID)
    expected, ours = (read_raw(folder / name) for name in ("fast.h5", "ours.h5"))
    assert_equal(expected, ours)


def assert_equal(expected: list[np.ndarray], arrays: list[np.ndarray]) -> None:
    """Bit by bit."""
    for array, other in zip(expected, arrays, strict=True):
        np.testing.assert_array_equal(array, other)


def read_raw(path: Path) -> list[np.ndarray]:
    with h5py.File(path) as file:
        return [
            np.asarray(file[layer][name])
            for layer in file.attrs["layer_names"]
            for name in file[layer].attrs["weight_names"]
        ]


@pytest.mark.parametrize("named", [".npz", ".safetensors"])
def test_round_trips_are_lossless(folder: Path, old_outputs: np.ndarray, named: str) -> None:
    """cudnn → keras → canonical → cudnn: the biases of an LSTM are halves of one already."""
    convert(folder, "fast.h5", "keras", "keras.h5")
    convert(folder, "keras.h5", "canonical", f"canonical{named}")
    convert(folder, f"canonical{named}", "cudnn", "again.h5", *SIGMOID)
    assert_equal(read_raw(folder / "fast.h5"), read_raw(folder / "again.h5"))
    convert(folder, f"canonical{named}", "keras", "keras_again.h5")
    assert_equal(read_raw(folder / "keras.h5"), read_raw(folder / "keras_again.h5"))
    convert(folder, "fast.h5", "cudnn", f"cudnn{named}")
    convert(folder, f"cudnn{named}", "cudnn", "again.h5")
    assert_equal(read_raw(folder / "fast.h5"), read_raw(folder / "again.h5"))


def test_a_model_of_keras_3_has_equal_outputs_in_tf_1_15(
    folder: Path, old, new_outputs: np.ndarray, in_keras_3: dict[str, np.ndarray]
) -> None:
    convert(folder, "new.keras", "keras", "from_new.h5")
    np.testing.assert_allclose(old("from_new.h5"), new_outputs, atol=1e-6)
    np.testing.assert_allclose(in_keras_3["new_fast.h5"], new_outputs, atol=1e-6)


# CuDNN's layers of TensorFlow 1.15 in each of its formats. Their op, which needs a GPU, is replaced
# by zeros: only the arrays are saved.
CUDNN = """
import json, sys
import numpy
import tensorflow as tf

layers, folder = tf.keras.layers, sys.argv[1]

def without_op(base, states):
    def zeros(self, inputs, initial_state):
        every = tf.zeros_like(inputs[:, :, :1]) * tf.ones([self.units])
        return (every if self.return_sequences else every[:, 0]), [every[:, 0]] * states
    return type(base.__name__, (base,), {"_process_batch": zeros})

CuDNNLSTM, CuDNNGRU = without_op(layers.CuDNNLSTM, 2), without_op(layers.CuDNNGRU, 1)
model = tf.keras.Sequential([
    CuDNNLSTM(5, return_sequences=True, input_shape=(7, 3), name="first"),
    layers.Bidirectional(CuDNNGRU(4, return_sequences=True), name="both"),
    CuDNNGRU(6, go_backwards=True, name="last"),
    layers.Dense(2, name="out"),
])
stream = numpy.random.RandomState(0)
model.set_weights([stream.normal(size=w.shape, scale=0.5) for w in model.get_weights()])
model.compile("adam", "mse")
model.save(folder + "/tf1.h5")
model.save_weights(folder + "/tf1_objects", save_format="tf")
tf.keras.models.save_model(model, folder + "/tf1_saved", save_format="tf")
tf.compat.v1.train.Saver().save(tf.keras.backend.get_session(), folder + "/tf1_saver.ckpt")
with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    layer = CuDNNGRU(6)
    with tf.compat.v1.variable_scope("model/encoder"):
        layer.build((None, 7, 3))
    session.run(tf.compat.v1.global_variables_initializer())
    tf.compat.v1.train.Saver().save(session, folder + "/tf1_scopes.ckpt")
numpy.savez(folder + "/tf1.npz", *model.get_weights())
print(json.dumps([w.name for w in layer.weights]))
"""
IN_KERAS_3 = """
import json, sys
import keras, numpy

folder, *files = sys.argv[1:]
layers = keras.layers
x, outputs = numpy.load(folder + "/x.npy"), []
for file in files:
    if "-whole." in file:
        model = keras.models.load_model(folder + "/" + file)
    else:
        model = keras.Sequential([
            layers.Input((7, 3)),
            layers.LSTM(5, return_sequences=True),
            layers.Bidirectional(layers.GRU(4, return_sequences=True)),
            layers.GRU(6, go_backwards=True),
            layers.Dense(2),
        ])
        model.load_weights(folder + "/" + file)
    outputs.append(model.predict(x, verbose=0).tolist())
print(json.dumps(outputs))
"""
# A checkpoint, and the end of the name of what it is converted to: a whole model, or weights only.
FORMATS = [
    ("tf1.h5", "whole.h5"),
    ("tf1.h5", "whole.keras"),
    ("tf1.h5", "only.weights.h5"),
    ("tf1_objects", "only.h5"),
    ("tf1_saver.ckpt", "only.h5"),
    ("tf1_saved", "only.h5"),
]


@pytest.fixture(scope="module")
def tf_1(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    python = build_python("tf_1_15", "3.7", tmp_path_factory)
    answer(python, CUDNN, folder, imports=["tensorflow"])
    return folder


@pytest.fixture(scope="module")
def outputs_in_keras_3(tf_1: Path) -> dict[tuple[str, str], np.ndarray]:
    """Of each of `FORMATS`, in one process."""
    files = []
    for source, end in FORMATS:
        files.append(f"{source}-{end}")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            convert(tf_1, source, "keras", files[-1])
        assert printed.getvalue().startswith("14 arrays: 12 converted")
    outputs = np.array(answer(sys.executable, IN_KERAS_3, tf_1, *files))
    return dict(zip(FORMATS, outputs, strict=True))


@pytest.mark.parametrize("source_and_target", FORMATS, ids="-".join)
def test_cudnn_layers_of_tf_1_15_compute_nvidias_equations_in_keras_3(
    tf_1: Path,
    outputs_in_keras_3: dict[tuple[str, str], np.ndarray],
    source_and_target: tuple[str, str],
) -> None:
    with np.load(tf_1 / "tf1.npz") as file:
        raw = [file[name].astype("float64") for name in file.files]
    x = np.load(tf_1 / "x.npy").astype("float64")
    first = cudnn(raw[:3], x)
    both = [cudnn(raw[3:6], first), cudnn(raw[6:9], first[:, ::-1])[:, ::-1]]
    last = cudnn(raw[9:12], np.concatenate(both, axis=-1)[:, ::-1])[:, -1]
    outputs = outputs_in_keras_3[source_and_target]
    np.testing.assert_allclose(outputs, last @ raw[12] + raw[13], atol=5e-6)


def cudnn(raw: list[np.ndarray], x: np.ndarray) -> np.ndarray:
    """The outputs (batch, time, units) of a CuDNN layer with the arrays of its checkpoint. Source:
    cuDNN's documentation of cudnnRNNMode_t; Keras 2.2.4, which gives cuDNN each gate's memory."""
    kernel, recurrent, bias = raw
    units = len(recurrent)
    gates = recurrent.shape[1] // units
    W = [kernel[:, gate * units :][:, :units].ravel().reshape(units, -1) for gate in range(gates)]
    R = [recurrent[:, gate * units :][:, :units] for gate in range(gates)]
    b_W, b_R = bias.reshape(2, gates, units)
    h = c = np.zeros((len(x), units))
    outputs = []
    for step in range(x.shape[1]):
        a = [x[:, step] @ W[gate].T + b_W[gate] for gate in range(gates)]
        q = [h @ R[gate].T + b_R[gate] for gate in range(gates)]
        if gates == 4:
            i, f, o = (sigmoid(a[gate] + q[gate]) for gate in (0, 1, 3))
            c = f * c + i * np.tanh(a[2] + q[2])
            h = o * np.tanh(c)
        else:
            z, r = sigmoid(a[0] + q[0]), sigmoid(a[1] + q[1])
            h = (1 - z) * np.tanh(a[2] + r * q[2]) + z * h
        outputs.append(h)
    return np.stack(outputs, axis=1)


def sigmoid(value: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-value))


def test_variables_in_nested_scopes_of_tf_1_15_are_read(
    tf_1: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    convert(tf_1, "tf1_scopes.ckpt", "canonical", "scopes.npz", "--check")
    out = capsys.readouterr().out
    assert "model/encoder: GRU of 6 units, reset_after, cudnn → keras" in out
    assert float(out.partition("difference ")[2].split()[0]) < 1e-5
    with np.load(tf_1 / "scopes.npz") as file:
        assert file.files == [f"model/encoder/{p}" for p in ("kernel", "recurrent_kernel", "bias")]
