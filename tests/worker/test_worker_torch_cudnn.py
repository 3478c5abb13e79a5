"""rnn=cudnn on torch runs cuDNN in every step or raises cuDNN's error. A CPU has no cuDNN, so the
tests use tensors whose device claims to be a GPU."""

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


def build(name, cell, both=False):
    recurrent = Recurrent(keras, {"cell": {"name": cell}, "rnn": {"implementation": name}})
    inputs = keras.layers.Input((5, 3))
    layer = (recurrent.bidirectional if both else recurrent)(4)
    return keras.models.Model(inputs, layer(inputs))


def shape_or_error(model):
    try:
        return list(model(X).shape)
    except Exception as error:
        return "{}: {}".format(type(error).__name__, error)


class OnGpu(torch.Tensor):
    device = SimpleNamespace(type="cuda")


def on_a_gpu(cell):
    def out_of_memory(*arguments, **settings):
        raise MemoryError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED")

    setattr(rnn, "_cudnn_" + cell, out_of_memory)
    build("cudnn", cell)
    # Keras calls this function after cuDNN raised.
    fallback = getattr(rnn, "_fallback_" + cell)
    arguments = dict.fromkeys(inspect.signature(fallback).parameters)
    arguments["inputs"] = torch.ones((2, 5, 3)).as_subclass(OnGpu)
    try:
        fallback(**arguments)
    except Exception as error:
        return "{}: {}".format(type(error).__name__, error)


results = {}
for cell in ("lstm", "gru"):
    model = build("cudnn", cell)  # Keras infers its shapes
    results[cell] = {"cudnn": shape_or_error(model), "keras": shape_or_error(build("keras", cell))}
    results[cell]["auto"] = shape_or_error(build("auto", cell))
    results[cell]["gpu"] = on_a_gpu(cell)
results["both"] = shape_or_error(build("cudnn", "lstm", both=True))
print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> dict:
    python = build_python("keras3_torch", "3.11", tmp_path_factory)
    return answer(python, SCRIPT, CUDA_VISIBLE_DEVICES="")


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_cudnn_or_an_error_in_every_step(results: dict, cell: str) -> None:
    assert "Keras would run its loop in place of cuDNN" in results[cell]["cudnn"]
    assert results[cell]["keras"] == results[cell]["auto"] == [2, 4]
    assert results[cell]["gpu"] == "MemoryError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED"


def test_cudnn_or_an_error_in_both_directions(results: dict) -> None:
    assert "Keras would run its loop in place of cuDNN" in results["both"]
