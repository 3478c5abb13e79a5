"""rnn=cudnn on torch is cuDNN or an error, in every step; what cuDNN raised is told. A CPU has no
cuDNN: a device that says it is a GPU stands for one."""

from __future__ import annotations

import pytest

from tests.worker.building import answer, build_python

SCRIPT = """
import importlib, inspect, json, os
os.environ["KERAS_BACKEND"] = "torch"
import keras, torch
from types import SimpleNamespace
from rnnworker.recurrent import Recurrent

rnn = importlib.import_module("keras.src.backend.torch.rnn")
X = torch.ones((2, 5, 3))


def made(name, cell, both=False):
    one = Recurrent(keras, {"cell": {"name": cell}, "rnn": {"implementation": name}})
    inputs = keras.layers.Input((5, 3))
    layer = (one.bidirectional if both else one)(4)
    return keras.models.Model(inputs, layer(inputs))


def told(model):
    try:
        return list(model(X).shape)
    except Exception as error:
        return "{}: {}".format(type(error).__name__, error)


class OnGpu(torch.Tensor):
    device = SimpleNamespace(type="cuda")


def on_a_gpu(cell):
    def full(*arguments, **settings):
        raise MemoryError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED")

    setattr(rnn, "_cudnn_" + cell, full)
    made("cudnn", cell)
    # What Keras calls where cuDNN raised.
    instead = getattr(rnn, "_fallback_" + cell)
    given = dict.fromkeys(inspect.signature(instead).parameters)
    given["inputs"] = torch.ones((2, 5, 3)).as_subclass(OnGpu)
    try:
        instead(**given)
    except Exception as error:
        return "{}: {}".format(type(error).__name__, error)


found = {}
for cell in ("lstm", "gru"):
    model = made("cudnn", cell)  # Keras looks at its shapes
    found[cell] = {"cudnn": told(model), "keras": told(made("keras", cell))}
    found[cell]["auto"] = told(made("auto", cell))
    found[cell]["gpu"] = on_a_gpu(cell)
found["both"] = told(made("cudnn", "lstm", both=True))
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> dict:
    python = build_python("keras3_torch", "3.11", tmp_path_factory)
    return answer(python, SCRIPT, CUDA_VISIBLE_DEVICES="")


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_cudnn_or_an_error_in_every_step(found: dict, cell: str) -> None:
    assert "Keras would run its loop in place of cuDNN" in found[cell]["cudnn"]
    assert found[cell]["keras"] == found[cell]["auto"] == [2, 4]
    assert found[cell]["gpu"] == "MemoryError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED"


def test_in_both_directions_too(found: dict) -> None:
    assert "Keras would run its loop in place of cuDNN" in found["both"]
