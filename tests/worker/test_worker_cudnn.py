"""Layers on cuDNN, as far as a CPU can tell: their graphs, errors, masks and directions in
TensorFlow, and in torch an error where Keras would fall back."""

from __future__ import annotations

import json
import re

import pytest

from rnnworker.canonical_weights import GATES
from tests.worker.building import answer_of

# Begins a script.
START = """
import json, sys
from rnnlayers import keras_kernels
from rnnworker.recurrent import Recurrent, in_place


def recurrent(keras, name, cell="lstm", **rnn):
    return Recurrent(keras, {"cell": {"name": cell}, "rnn": dict(rnn, implementation=name)})


def error(call):
    try:
        call()
    except Exception as raised:
        return "{}: {}".format(type(raised).__name__, raised)


def with_kernel(keras, name, shape, cell="lstm", both=False, masked=False, **options):
    layers = recurrent(keras, name, cell)
    inputs = keras.layers.Input(shape)
    before = keras.layers.Masking()(inputs) if masked else inputs
    layer = layers.bidirectional(4, **options) if both else layers(4, **options)
    model = keras.models.Model(inputs, layer(before))
    if layers.kernel:
        in_place.give(keras, model, layers.kernel, lambda layer: "mine.py, line 3")
    return model


def as_on_a_gpu(*arguments, **settings):
    # What can be told without a GPU.
    has_gpu, keras_kernels._has_gpu = keras_kernels._has_gpu, lambda backend: True
    try:
        return with_kernel(*arguments, **settings)
    finally:
        keras_kernels._has_gpu = has_gpu
"""
# ``cudnn_ops`` returns the ops of a training step, forward and backward.
TRACED = """
import tensorflow as tf


def cudnn_ops(model, variables):
    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(x))
        return tape.gradient(loss, variables)

    graph = step.get_concrete_function(tf.TensorSpec([2, 7, 3])).graph
    return [op for op in graph.get_operations() if op.type.startswith("Cudnn")]


"""
GRAPHS = """
import keras


def raw(cell, op, both=False, stacked=1, sequences=False):
    layers = recurrent(keras, "cudnn_raw", cell, options={"op": op})
    inputs = keras.layers.Input((7, 3))
    layer = layers.stack(4, stacked, both, return_sequences=sequences)
    model = keras.models.Model(inputs, layer(inputs))
    ops = cudnn_ops(model, [v.value for v in model.trainable_variables])
    (call,) = [op for op in ops if "Backprop" not in op.type]
    return {
        "ops": sorted(op.type for op in ops),
        "direction": call.get_attr("direction").decode(),
        "inferred": [list(tensor.shape) for tensor in [*call.inputs[:2], call.inputs[3]]],
        "op_output": list(call.outputs[0].shape),
    }


def masked(name):
    return error(lambda: with_kernel(keras, name, (7, 3), masked=True)(X))


def settings_of_both(name):
    layer = as_on_a_gpu(keras, name, (7, 3), both=True).layers[-1]
    return [layer.forward_layer.use_cudnn, layer.backward_layer.use_cudnn]


X = tf.ones((2, 7, 3))
print(json.dumps({
    "stack": raw("lstm", "CudnnRNNV2", both=True, stacked=3, sequences=True),
    "stack_v3": raw("rnn_tanh", "CudnnRNNV3", stacked=2),
    "other_op": error(lambda: recurrent(keras, "cudnn_raw", options={"op": "CudnnRNN"})(4)),
    "cudnn_on_cpu": error(lambda: with_kernel(keras, "cudnn", (7, 3))),
    "cudnn_called": error(lambda: as_on_a_gpu(keras, "cudnn", (7, 3))(X)),
    "cudnn_simple": error(lambda: with_kernel(keras, "cudnn", (7, 3), "rnn_tanh")),
    "cudnn_dropout": error(lambda: with_kernel(keras, "cudnn", (7, 3), recurrent_dropout=0.2)),
    "masked": {name: masked(name) for name in ("block", "block_cell", "cudnn_raw", "keras")},
    "both_settings": {n: settings_of_both(n) for n in ("keras", "auto", "cudnn")},
    "none": error(lambda: recurrent(keras, "none")(4)),
}))
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> dict:
    return answer_of("current", START + TRACED + GRAPHS, temporary=tmp_path_factory)


def test_a_stack_is_one_op_on_one_buffer(results: dict) -> None:
    """TensorFlow's shape inference: sequences (time, batch, features), states (layers · directions,
    batch, units), outputs of both directions."""
    assert results["stack"] == {
        "ops": ["CudnnRNNBackpropV2", "CudnnRNNV2"],
        "direction": "bidirectional",
        "inferred": [[7, 2, 3], [6, 2, 4], [4 * 4 * (2 * (3 + 4) + 4 * (8 + 4) + 6 * 2)]],
        "op_output": [7, 2, 8],
    }
    assert results["stack_v3"] == {
        "ops": ["CudnnRNNBackpropV3", "CudnnRNNV3"],
        "direction": "unidirectional",
        "inferred": [[7, 2, 3], [2, 2, 4], [4 * (3 + 4 + 4 + 4 + 2 * 2)]],
        "op_output": [7, 2, 4],
    }


def test_cudnn_or_an_error(results: dict) -> None:
    said = "Refusal: mine.py, line 3: layer {}: cudnn "
    # The kernels before have made layers of Keras, from which they start.
    first = said.format(r"lstm(_\d+)?")
    assert re.fullmatch(first + "needs a GPU", results["cudnn_on_cpu"])
    assert "use_cudnn=True was specified" in results["cudnn_called"]
    computes = "computes LSTM and GRU only, not SimpleRNNCell"
    assert re.fullmatch(said.format(r"simple_rnn(_\d+)?") + computes, results["cudnn_simple"])
    assert re.fullmatch(first + "has no recurrent_dropout", results["cudnn_dropout"])
    assert "rnn=none" in results["none"]
    assert "'CudnnRNN' must be one of CudnnRNNV2, CudnnRNNV3" in results["other_op"]


def test_both_directions_get_the_setting_that_keras_omits_from_a_config(results: dict) -> None:
    settings = {"keras": [False] * 2, "auto": ["auto"] * 2, "cudnn": [True] * 2}
    assert results["both_settings"] == settings


def test_a_mask_that_would_be_ignored_is_an_error(results: dict) -> None:
    masked = results["masked"]
    assert masked.pop("keras") is None
    assert "rnn=cudnn_raw does not support a mask; keras can" in masked.pop("cudnn_raw")
    for name, message in masked.items():
        assert f"{name} has no masks" in message, message


LEGACY = """
inputs = tf.keras.layers.Input((7, 3))
model = tf.keras.models.Model(inputs, recurrent(tf.keras, "legacy_cudnn")(4)(inputs))
ops = sorted({op.type for op in cudnn_ops(model, model.trainable_variables)})
shapes = [list(variable.shape) for variable in model.trainable_variables]
print(json.dumps({"shapes": shapes, "ops": ops}))
"""


def test_keras_2s_lstm_on_tensorflow_2_trains_one_bias(tmp_path_factory) -> None:
    script = START + TRACED + LEGACY
    layer = answer_of("tf_2_21_keras2", script, temporary=tmp_path_factory)
    assert layer["shapes"] == [[3, 16], [4, 16], [16]]
    assert layer["ops"] == ["CudnnRNNBackpropV3", "CudnnRNNV3"]


# Implementation, cell, layers.
IN_TENSORFLOW_1 = [
    *(("contrib_cudnn", cell, 1) for cell in ("lstm", "gru", "rnn_tanh", "rnn_relu")),
    *(("contrib_cudnn", cell, 2) for cell in ("lstm", "gru")),
    *(("legacy_cudnn", cell, 1) for cell in ("lstm", "gru")),
]
GRAPH = """
import tensorflow as tf

graphs = []
for name, cell, layers in json.loads(sys.argv[1]):
    with tf.Graph().as_default() as graph:
        inputs = tf.keras.layers.Input((7, 3))
        layer = recurrent(tf.keras, name, cell).stack(4, layers=layers, bidirectional=True)
        model = tf.keras.models.Model(inputs, layer(inputs))
        model.compile("adam", "mse")
        model._make_train_function()
        ops = [op for op in graph.get_operations() if op.type.startswith("Cudnn")]
        variables = model.trainable_weights
        graphs.append({
            "ops": sorted({op.type for op in ops}),
            "modes": sorted({op.get_attr("rnn_mode").decode() for op in ops}),
            "parameters": model.count_params(),
            "trained": sum(variable.shape.num_elements() for variable in variables),
            "unused": any(each is None for each in tf.gradients(model.output, variables)),
            "counts": [len(ops), len(variables)],
            "output": model.output.shape.as_list(),
        })
print(json.dumps(graphs))
"""


def test_cudnn_layers_train_as_many_biases_as_keras(tmp_path_factory) -> None:
    arguments = (START + GRAPH, json.dumps(IN_TENSORFLOW_1))
    graphs = answer_of("tf_1_15", *arguments, temporary=tmp_path_factory)
    for (name, cell, layers), graph in zip(IN_TENSORFLOW_1, graphs, strict=True):
        version = "V2" if name == "legacy_cudnn" else ""
        biases = 2 if cell == "gru" else 1
        above = (layers - 1) * (8 + 4 + biases)
        parameters = 2 * GATES[cell] * 4 * (3 + 4 + biases + above)
        assert graph == {
            "ops": sorted([f"CudnnRNN{version}", f"CudnnRNNBackprop{version}"]),
            "modes": [cell],
            "parameters": parameters,
            "trained": parameters,
            "unused": False,
            # Of contrib's layer, one op forward and one backward, and one buffer.
            "counts": [4, 6] if name == "legacy_cudnn" else [2, 1],
            "output": [None, 8],
        }, (name, cell, layers)


TORCH = """
import importlib, inspect
import keras, torch
from types import SimpleNamespace

rnn = importlib.import_module("keras.src.backend.torch.rnn")
X = torch.ones((2, 5, 3))


def build(name, cell, both=False):
    return as_on_a_gpu(keras, name, (5, 3), cell, both=both)


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
    arguments["inputs"] = X.as_subclass(OnGpu)
    return error(lambda: fallback(**arguments))


results = []
for cell in ("lstm", "gru"):
    names = ("cudnn", "keras", "auto")
    results.append({name: error(lambda: build(name, cell)(X)) for name in names})
    results[-1]["both"] = error(lambda: build("cudnn", cell, both=True)(X))
    results[-1]["gpu"] = on_a_gpu(cell)
print(json.dumps(results))
"""


def test_cudnn_or_an_error_in_every_step_of_torch(tmp_path_factory) -> None:
    for results in answer_of("keras3_torch", START + TORCH, temporary=tmp_path_factory):
        for name in ("cudnn", "both"):
            assert "Keras would run its loop in place of cuDNN" in results[name]
        assert results["keras"] is results["auto"] is None
        assert results["gpu"] == "MemoryError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED"
