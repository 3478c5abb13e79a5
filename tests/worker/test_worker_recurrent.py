"""How layers are made: user-supplied kernels, their contract, and the errors that name a violation;
implementations by name, and what their ops lack. `test_worker_conformance` checks their weights'
layouts by the outputs of real layers, `test_worker_buffer` that of cuDNN's buffer."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy
import pytest

import rnnlayers
from rnnworker import arguments, user_functions
from rnnworker.kernels import legacy_cudnn
from rnnworker.options import IMPLEMENTATIONS, IN_PLACE, WITHOUT_LAYERS
from rnnworker.recurrent import Recurrent, own_file
from tests.conftest import ROOT

UNITS, COLUMNS = 4, 16
GOOD = {
    "kernel": numpy.zeros((3, COLUMNS), "float32"),
    "recurrent": numpy.ones((UNITS, COLUMNS), "float32"),
    "bias": numpy.zeros(COLUMNS, "float32"),
}
MINE = """
def make(keras, cell, units, options):
    layer = keras.layers.Layer()
    layer.arrays = {}
    return layer

def to_canonical(layer, values=None):
    return dict(layer.arrays if values is None else values)

def from_canonical(layer, arrays):
    layer.arrays = arrays
"""
TRANSPOSED = (
    r"to_canonical returns recurrent of shape \(16, 4\): for cell=lstm with 4 units it "
    r"must be \(4, 16\) \(docs/own_kernel.md\)"
)
LAYER = type("Layer", (), {"build": lambda layer, shape: None})
LSTM = type("LSTM", (LAYER,), {"__init__": lambda layer, units, **settings: None})
KERAS = SimpleNamespace(layers=SimpleNamespace(Layer=LAYER, LSTM=LSTM))
KERNEL = """
class Kernel:
    def inner_loop(self, sequences, initial_state, mask, training=False): ...
"""


def recurrent(tmp_path: Path, text: str, **rnn) -> Recurrent:
    mine = tmp_path / "mine.py"
    mine.write_text(text)
    user_functions.forget()
    config = {"cell": {"name": "lstm"}, "build": {"framework": None}}
    return Recurrent(KERAS, {**config, "rnn": {"implementation": str(mine), "name": "mine", **rnn}})


def test_a_file_is_an_implementation(tmp_path: Path) -> None:
    layers = recurrent(tmp_path, MINE)
    layer = layers(UNITS)
    layers.from_canonical(layer, GOOD)
    assert layers.to_canonical(layer).keys() == GOOD.keys()
    doubled = {name: 2 * array for name, array in GOOD.items()}
    assert (layers.to_canonical(layer, doubled)["recurrent"] == 2).all()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("def make", "def other", "mine.py: has neither a class Kernel nor a function make"),
        ("return layer\n", "return None\n", "mine.py: make returns a NoneType"),
        ("dict(layer", "list(layer", r"to_canonical returns list, not a dict of kernel, recurr"),
        ("= arrays", "= {'kernel': arrays['kernel']}", r"returns \['kernel'\], not a dict"),
        ("= arrays", "= dict(arrays, recurrent=arrays['recurrent'].T)", TRANSPOSED),
        ("= arrays", "= dict(arrays, bias=arrays['bias'] + 1)", "returns another bias than from_"),
    ],
)
def test_a_violation_of_the_contract_is_a_message_of_one_line(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        layers = recurrent(tmp_path, MINE.replace(old, new))
        layers.from_canonical(layers(UNITS), GOOD)
    assert str(caught.value).startswith(f"{tmp_path}/mine.py: ")
    assert "\n" not in str(caught.value)


def test_a_file_with_a_class_is_a_kernel_in_place(tmp_path: Path) -> None:
    kernel = recurrent(tmp_path, KERNEL).kernel
    assert isinstance(kernel, type) and kernel.__name__ == "Kernel"
    with pytest.raises(ValueError, match=r"mine.py: its class Kernel has no method inner_loop"):
        recurrent(tmp_path, KERNEL.replace("inner_loop", "loop"))


def test_the_bias_of_a_gru_has_two_rows() -> None:
    arrays = {"kernel": numpy.zeros((3, 12)), "recurrent": numpy.zeros((4, 12))}
    assert own_file.violation("gru", {4}, dict(arrays, bias=numpy.zeros((2, 12)))) is None
    message = str(own_file.violation("gru", {4}, dict(arrays, bias=numpy.zeros(12))))
    assert "must be (2, 12)" in message
    assert own_file.violation("gru_reset_before", {4}, arrays) is None, "a layer may have no bias"


def test_dropout_that_the_kernel_would_ignore_is_an_error(tmp_path: Path) -> None:
    refused = r"rnn=mine does not support dropout=0.2; list dropout in options of its YAML"
    with pytest.raises(arguments.Refusal, match=refused):
        recurrent(tmp_path, MINE)(UNITS, dropout=0.2)
    recurrent(tmp_path, MINE, options={"dropout": 0.0})(UNITS, dropout=0.2)


def test_an_error_names_the_line_in_the_users_file(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        recurrent(tmp_path, MINE.replace("layer = ", "1 / 0; layer = "))(UNITS)
    assert user_functions.one_line(caught.value) == f"{tmp_path}/mine.py, line 3: division by zero"
    assert user_functions.one_line(ValueError("a\nb")) == "a"
    assert user_functions.one_line(ValueError()) == "ValueError()"
    assert user_functions.described(ValueError("ValueError: no")) == "ValueError: no"


def test_a_file_that_does_not_exist_is_looked_for_in_a_named_folder(tmp_path: Path) -> None:
    for path, said in (
        ("words.txt", f"; relative paths begin in {Path.cwd()}"),
        ("/words.txt", ""),
    ):
        user_functions.forget()
        with pytest.raises(FileNotFoundError) as caught:
            recurrent(tmp_path, MINE.replace("layer = ", f"open({path!r}); layer = "))(UNITS)
        place = f"{tmp_path}/mine.py, line 3: "
        missing = f"{place}[Errno 2] No such file or directory: {path!r}"
        assert user_functions.one_line(caught.value) == missing + said


def test_lack_of_memory_has_a_code_of_its_own() -> None:
    class ResourceExhaustedError(Exception):
        """As TensorFlow has it."""

    native = RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 TB")
    for error in (MemoryError(), ResourceExhaustedError("Graph execution error:"), native):
        assert user_functions.code_of(error) == "out_of_memory"
    assert user_functions.code_of(KeyError("memory")) == "exception"


def test_a_file_is_executed_once_for_each_model_and_imports_what_lies_beside_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "beside_mine.py").write_text("kept = []\n")
    (tmp_path / "package_beside").mkdir()
    (tmp_path / "package_beside/__init__.py").write_text("")
    (tmp_path / "package_beside/inner.py").write_text("kept = []\n")
    mine = tmp_path / "mine.py"
    mine.write_text(
        "from beside_mine import kept\nfrom package_beside import inner\nkept.append(__name__)\n"
    )
    first = user_functions.from_file(mine)
    assert user_functions.from_file(mine) is first and len(first.kept) == 1
    user_functions.forget()
    second = user_functions.from_file(mine)
    assert second is not first and second.kept == first.kept and second.kept is not first.kept
    assert second.inner is not first.inner
    user_functions.forget()
    assert "beside_mine" not in sys.modules


def test_the_text_that_keras_and_tensorflow_put_before_a_message_is_removed() -> None:
    text = (
        'in user code:\n\n    File "/a.py", line 1, in probe  *\n        outputs = layer(inputs)\n'
        '    File "/b.py", line 15, in outputs\n        raise RuntimeError("no")\n\n'
        "    RuntimeError: Exception encountered when calling Scan.call().\n    \n"
        "    \x1b[1mno such device\x1b[0m\n    \n    Arguments received"
    )
    assert user_functions.one_line(RuntimeError(text)) == "no such device"
    plain = "Exception encountered when calling Scan.call().\n\n\x1b[1mno such device\x1b[0m\n\nA"
    assert user_functions.one_line(RuntimeError(plain)) == "no such device"
    graph = (
        "Graph execution error:\n\nDetected at node loss defined at (most recent call last):\n"
        '  File "/a.py", line 1, in main\n\n  File "/b.py", line 2, in loss\n\n'
        "Received a label value of 4\n\t [[{{node loss}}]]"
    )
    assert user_functions.one_line(RuntimeError(graph)) == "Received a label value of 4"


def test_an_unknown_implementation_is_an_error_that_lists_the_known_ones() -> None:
    config = {"cell": {"name": "lstm"}, "rnn": {"implementation": "cudnn9"}}
    with pytest.raises(ValueError, match="'cudnn9' must be one of keras, auto, cudnn, cell"):
        Recurrent(KERAS, config)


def test_every_implementation_has_a_choice_and_a_kernel() -> None:
    choices = {path.stem for path in (ROOT / "conf" / "rnn").glob("*.yaml")}
    assert set(IMPLEMENTATIONS) == choices | {"fake"}
    assert set(IN_PLACE) == set(rnnlayers.kernels())
    for name in set(IMPLEMENTATIONS) - set(WITHOUT_LAYERS) - set(IN_PLACE):
        assert callable(importlib.import_module(f"rnnworker.kernels.{name}").make)


@pytest.mark.parametrize(
    ("kernel", "name", "other"),
    [
        ("contrib", "tf.contrib", "another"),
        ("contrib_cudnn", "tf.contrib.cudnn_rnn", "gru_reset_before"),
        ("cudnn_compatible", "a cuDNN-compatible cell", "rnn_tanh"),
        ("cudnn_raw", "CudnnRNN", "gru_reset_before"),
        ("legacy_cudnn", "a CuDNN layer", "rnn_tanh"),
    ],
)
def test_other_cells_and_dropout_are_errors(kernel: str, name: str, other: str) -> None:
    make = importlib.import_module(f"rnnworker.kernels.{kernel}").make
    with pytest.raises(ValueError, match=rf"{name} supports .*lstm.*, not {other}"):
        make(KERAS, other, 4, {})
    for dropout in ("dropout", "recurrent_dropout"):
        with pytest.raises(ValueError, match=f"{name} has no dropout inside the cell"):
            make(KERAS, "lstm", 4, {dropout: 0.5})


def test_a_build_without_the_layer_is_an_error() -> None:
    keras = SimpleNamespace(layers=SimpleNamespace(), __version__="3.15.1")
    with pytest.raises(ValueError, match=r"Keras 3.15.1 has no CuDNNLSTM"):
        legacy_cudnn.make(keras, "lstm", 4, {})
