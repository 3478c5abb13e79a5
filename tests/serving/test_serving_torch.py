"""The module of torch computes what Keras does, and refuses what torch.nn has not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import ROOT
from tests.worker.building import answer, python_of

SCRIPT = """
import json
import sys
from pathlib import Path

import keras
import numpy
from keras import layers

from rnnserve import torch_eager
from rnnserve.refusals import Refused

stream = numpy.random.default_rng(0)


def chain(*parts, words=False):
    inputs = keras.Input((None,), dtype="int32") if words else keras.Input((None, 5))
    value = inputs
    for part in parts:
        value = part(value)
    return keras.Model(inputs, value)


two = [keras.Input((None, 5)), keras.Input((None, 5))]
models = {
    "lstm": chain(layers.LSTM(8, return_sequences=True), layers.LSTM(4)),
    "gru": chain(layers.GRU(8, go_backwards=True, return_sequences=True)),
    "rnn": chain(layers.SimpleRNN(8, activation="relu", use_bias=False)),
    "both": chain(layers.Bidirectional(layers.GRU(8, return_sequences=True)), layers.Dense(3)),
    "last of both": chain(layers.Bidirectional(layers.LSTM(8)), layers.Activation("softmax")),
    "words": chain(layers.Embedding(20, 4), layers.GRU(3), layers.Dropout(0.5), words=True),
    "two": keras.Model(two, layers.Concatenate()([layers.LSTM(3)(two[0]), layers.GRU(4)(two[1])])),
    "mask": chain(layers.Masking(), layers.LSTM(4)),
    "words with mask": chain(layers.Embedding(20, 4, mask_zero=True), layers.GRU(3), words=True),
    "reset before": chain(layers.GRU(4, reset_after=False)),
    "other gates": chain(layers.LSTM(4, recurrent_activation="hard_sigmoid")),
    "stateful": chain(layers.GRU(4, return_state=True)),
    "sum": chain(layers.Bidirectional(layers.LSTM(4), merge_mode="sum")),
}
found = {}
for name, model in models.items():
    for variable in model.weights:
        if "bias" in variable.path:
            variable.assign(stream.normal(size=variable.shape))
    arrays = []
    for tensor in model.inputs:
        array = stream.normal(size=(4, 9, 5))
        if tensor.dtype == "int32":
            array = stream.integers(1, 20, size=(4, 9))
        arrays.append(array.astype(tensor.dtype))
    folder = Path(sys.argv[1], name)
    folder.mkdir()
    try:
        torch_eager.export(model, arrays, folder)
    except Refused as error:
        found[name] = str(error)
        continue
    expected = keras.tree.flatten(model(arrays if len(arrays) > 1 else arrays[0]))
    outputs = torch_eager.load(folder, 1)(arrays)
    found[name] = float(max(numpy.abs(a - b).max() for a, b in zip(outputs, expected)))
print(json.dumps(found))
"""
REFUSED = {
    "mask": "torch.nn has no masks",
    "words with mask": "torch.nn has no masks",
    "reset before": "torch's GRU resets after the product, this one before it",
    "other gates": "torch.nn has no hard_sigmoid there",
    "stateful": "return_state and stateful have no translation",
    "sum": "torch.nn has no merge_mode=sum",
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    python, own = python_of("serving", tmp_path_factory)
    own["PYTHONPATH"] = f"{ROOT / 'src'}"
    folder = tmp_path_factory.mktemp("torch")
    return answer(python, SCRIPT, folder, timeout=600, KERAS_BACKEND="tensorflow", **own)


def test_its_outputs_are_those_of_keras(found: Any) -> None:
    equal = {name: apart for name, apart in found.items() if name not in REFUSED}
    assert len(equal) == 7
    assert all(apart < 1e-6 for apart in equal.values()), equal


@pytest.mark.parametrize("name", REFUSED)
def test_what_torch_has_not_is_refused(found: Any, name: str) -> None:
    assert found[name].startswith("layer ")
    assert found[name].endswith(REFUSED[name])
