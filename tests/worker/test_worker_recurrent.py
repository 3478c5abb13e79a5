"""How layers are made: user-supplied kernels, their contract, and the errors that name a violation;
implementations by name."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy
import pytest

from rnnworker import user_functions
from rnnworker.options import IMPLEMENTATIONS
from rnnworker.recurrent import Recurrent, implementation, own_file
from tests.conftest import ROOT
from tests.worker.building import ALL_CERTIFICATES, answer, certificate_job, equal

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
KERAS = SimpleNamespace(layers=SimpleNamespace(Layer=type("Layer", (), {})))


def recurrent(tmp_path: Path, text: str, **rnn) -> Recurrent:
    mine = tmp_path / "mine.py"
    mine.write_text(text)
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
        ("def make", "def other", "mine.py: has no function make"),
        ("return layer\n", "return None\n", "mine.py: make returns a NoneType"),
        ("dict(layer", "list(layer", r"to_canonical returns list, not a dict of kernel, recurr"),
        ("= arrays", "= {'kernel': arrays['kernel']}", r"returns \['kernel'\], not a dict"),
        (
            "= arrays",
            "= dict(arrays, recurrent=arrays['recurrent'].T)",
            r"to_canonical returns recurrent of shape \(16, 4\): for cell=lstm with 4 units it "
            r"must be \(4, 16\) \(docs/own_kernel.md\)",
        ),
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


def test_the_bias_of_a_gru_has_two_rows() -> None:
    arrays = {"kernel": numpy.zeros((3, 12)), "recurrent": numpy.zeros((4, 12))}
    assert own_file.violation("gru", {4}, dict(arrays, bias=numpy.zeros((2, 12)))) is None
    message = str(own_file.violation("gru", {4}, dict(arrays, bias=numpy.zeros(12))))
    assert "must be (2, 12)" in message
    assert own_file.violation("gru_reset_before", {4}, arrays) is None, "a layer may have no bias"


def test_dropout_that_the_kernel_would_ignore_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"asks for dropout=0.2; .* list it in options of rnn=min"):
        recurrent(tmp_path, MINE)(UNITS, dropout=0.2)
    recurrent(tmp_path, MINE, options={"dropout": 0.0})(UNITS, dropout=0.2)


def test_an_error_names_the_line_in_the_users_file(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        recurrent(tmp_path, MINE.replace("layer = ", "1 / 0; layer = "))(UNITS)
    assert user_functions.one_line(caught.value) == f"{tmp_path}/mine.py, line 3: division by zero"
    assert user_functions.one_line(ValueError("a\nb")) == "a"
    assert user_functions.one_line(ValueError()) == "ValueError()"


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


def test_both_directions_are_certified_and_an_exception_is_reported(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "own_kernel.md").read_text()
    text = page.partition("`scan_lstm.py`:\n\n```python\n")[2].partition("```")[0]
    (tmp_path / "mine.py").write_text(text)
    shifted = "            raise RuntimeError('on purpose')\n            projected ="
    (tmp_path / "raises.py").write_text(text.replace("            projected =", shifted, 1))
    files = {"keras": "keras", **{n: str(tmp_path / f"{n}.py") for n in ("mine", "raises")}}
    rnn = {name: {"implementation": file} for name, file in files.items()}
    stack = {"layers": 2, "bidirectional": True, "sequence": 12}  # fewer would look unrolled
    job = certificate_job("keras3_tensorflow", "lstm", rnn, **stack)
    variables = {"KERAS_BACKEND": "tensorflow"}
    arguments = (ALL_CERTIFICATES, json.dumps([job]))
    (certificate,) = answer(sys.executable, *arguments, timeout=900, **variables)
    entries = certificate["implementations"]
    assert (entries["mine"]["status"], entries["mine"]["why"]) == ("certified", None)
    assert entries["mine"]["kernel"] == ["while"], "found, although the choice names none"
    assert entries["mine"]["applied"]["cpu_1"]["off"] == 0
    (pair,) = certificate["pairs"]
    assert (pair["a"], pair["b"], equal(pair)) == ("keras", "mine", True)
    why = f"RuntimeError: {tmp_path}/raises.py, line 15: on purpose"
    assert (entries["raises"]["status"], entries["raises"]["why"]) == ("failed", why)


def test_an_unknown_implementation_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="'cudnn9' must be one of keras, auto, cudnn, cell"):
        implementation("cudnn9")


def test_every_implementation_has_a_choice_and_makes_layers() -> None:
    choices = {path.stem for path in (ROOT / "conf" / "rnn").glob("*.yaml")}
    assert set(IMPLEMENTATIONS) == choices | {"fake"}
    assert all(callable(implementation(name).make) for name in IMPLEMENTATIONS)


def test_recurrent_lists_its_layers_and_completes_options(monkeypatch) -> None:
    calls = []

    def make(keras, cell, units, options):
        calls.append((keras, cell, units, options))
        return object()

    recurrent = Recurrent("keras", {"cell": {"name": "lstm"}, "rnn": {"implementation": "keras"}})
    monkeypatch.setattr(recurrent.module, "make", make)
    first, second = recurrent(8), recurrent(4, return_sequences=True, name="top")
    assert recurrent.layers == [first, second]
    defaults = {"return_sequences": False, "dropout": 0.0, "recurrent_dropout": 0.0}
    assert calls == [
        ("keras", "lstm", 8, defaults),
        ("keras", "lstm", 4, {**defaults, "return_sequences": True, "name": "top"}),
    ]
