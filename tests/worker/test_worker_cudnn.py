"""Layers on cuDNN, as far as a CPU can tell: their graphs, errors, masks and directions in
TensorFlow, and in torch an error where Keras would fall back."""

from __future__ import annotations

import json

import pytest

from rnnworker.canonical_weights import GATES
from tests.worker.building import answer_of

# Begins a script: ``cudnn_ops`` returns the ops of a training step, forward and backward.
TRACED = """
import json, os
os.environ.update(KERAS_BACKEND="tensorflow", TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1")
import tensorflow as tf
from rnnworker.recurrent import Recurrent


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


def recurrent(name, cell="lstm", **rnn):
    return Recurrent(keras, {"cell": {"name": cell}, "rnn": dict(rnn, implementation=name)})


def raw(cell, op, both=False, stacked=1, sequences=False):
    layers = recurrent("cudnn_raw", cell, options={"op": op})
    inputs = keras.layers.Input((7, 3))
    layer = layers.stack(4, stacked, both, return_sequences=sequences)
    model = keras.models.Model(inputs, layer(inputs))
    ops = cudnn_ops(model, [v.value for v in model.trainable_variables])
    arrays = layers.to_canonical(layers.layers[0])
    (call,) = [op for op in ops if "Backprop" not in op.type]
    return {
        "ops": sorted(op.type for op in ops),
        "direction": call.get_attr("direction").decode(),
        "inferred": [list(tensor.shape) for tensor in [*call.inputs[:2], call.inputs[3]]],
        "op_output": list(call.outputs[0].shape),
        "shapes": {name: list(array.shape) for name, array in arrays.items()},
        "parameters": model.count_params(),
        "output": list(model.output_shape),
    }


def error(call):
    try:
        call()
    except Exception as raised:
        return "{}: {}".format(type(raised).__name__, raised)


def masked(name):
    inputs = keras.layers.Input((7, 3))
    model = keras.models.Model(inputs, recurrent(name)(4)(keras.layers.Masking()(inputs)))
    return error(lambda: model(X))


def settings_of_both(name):
    layer = recurrent(name).bidirectional(4)
    return [layer.forward_layer.use_cudnn, layer.backward_layer.use_cudnn]


X = tf.ones((2, 7, 3))
print(json.dumps({
    "stack": raw("lstm", "CudnnRNNV2", both=True, stacked=3, sequences=True),
    "stack_v3": raw("rnn_tanh", "CudnnRNNV3", stacked=2),
    "other_op": error(lambda: recurrent("cudnn_raw", options={"op": "CudnnRNN"})(4)),
    "cudnn_on_cpu": error(lambda: recurrent("cudnn")(4)(X)),
    "cudnn_simple": error(lambda: recurrent("cudnn", "rnn_tanh")(4)),
    "cudnn_dropout": error(lambda: recurrent("cudnn")(4, recurrent_dropout=0.2)),
    "masked": {name: masked(name) for name in ("block", "block_cell", "cudnn_raw", "keras")},
    "both_settings": {n: settings_of_both(n) for n in ("keras", "auto", "cudnn")},
    "none": error(lambda: recurrent("none")(4)),
}))
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> dict:
    return answer_of("current", TRACED + GRAPHS, temporary=tmp_path_factory)


def test_a_stack_is_one_op_on_one_buffer(results: dict) -> None:
    """TensorFlow's shape inference: sequences (time, batch, features), states (layers · directions,
    batch, units), outputs of both directions."""
    stack, other = results["stack"], results["stack_v3"]
    assert stack["ops"] == ["CudnnRNNBackpropV2", "CudnnRNNV2"]
    assert other["ops"] == ["CudnnRNNBackpropV3", "CudnnRNNV3"]
    assert [each["direction"] for each in (stack, other)] == ["bidirectional", "unidirectional"]
    size = 4 * 4 * (2 * (3 + 4) + 4 * (8 + 4) + 6 * 2)
    assert stack["inferred"] == [[7, 2, 3], [6, 2, 4], [size]]
    assert stack["op_output"] == [7, 2, 8]
    assert stack["output"] == [None, 7, 8]
    assert stack["parameters"] == size - 6 * 4 * 4
    assert stack["shapes"]["layer0_backward_kernel"] == [3, 16]
    assert stack["shapes"]["layer2_forward_kernel"] == [8, 16]
    assert len(stack["shapes"]) == 18
    assert other["inferred"][1] == [2, 2, 4]
    assert other["output"] == [None, 4]


def test_cudnn_or_an_error(results: dict) -> None:
    assert "use_cudnn=True was specified" in results["cudnn_on_cpu"]
    assert "for lstm and gru only" in results["cudnn_simple"]
    assert "no recurrent dropout" in results["cudnn_dropout"]
    assert "rnn=none" in results["none"]
    assert "'CudnnRNN' must be one of CudnnRNNV2, CudnnRNNV3" in results["other_op"]


def test_bidirectional_keeps_settings_that_keras_omits_from_a_config(results: dict) -> None:
    settings = {"keras": [False] * 2, "auto": ["auto"] * 2, "cudnn": [True] * 2}
    assert results["both_settings"] == settings


def test_a_mask_that_would_be_ignored_is_an_error(results: dict) -> None:
    masked = results["masked"]
    assert masked.pop("keras") is None
    assert all("does not support a mask" in message for message in masked.values()), masked


LEGACY = """
config = {"cell": {"name": "lstm"}, "rnn": {"implementation": "legacy_cudnn"}}
inputs = tf.keras.layers.Input((7, 3))
model = tf.keras.models.Model(inputs, Recurrent(tf.keras, config)(4)(inputs))
ops = sorted({op.type for op in cudnn_ops(model, model.trainable_variables)})
shapes = [list(variable.shape) for variable in model.trainable_variables]
print(json.dumps({"shapes": shapes, "ops": ops}))
"""


def test_keras_2s_lstm_on_tensorflow_2_trains_one_bias(tmp_path_factory) -> None:
    layer = answer_of("tf_2_21_keras2", TRACED + LEGACY, temporary=tmp_path_factory)
    assert layer["shapes"] == [[3, 16], [4, 16], [16]]
    assert layer["ops"] == ["CudnnRNNBackpropV3", "CudnnRNNV3"]


# Implementation, cell, layers.
IN_TENSORFLOW_1 = [
    *(("contrib_cudnn", cell, 1) for cell in ("lstm", "gru", "rnn_tanh", "rnn_relu")),
    *(("contrib_cudnn", cell, 2) for cell in ("lstm", "gru")),
    *(("legacy_cudnn", cell, 1) for cell in ("lstm", "gru")),
]
GRAPH = """
import json, os, sys
os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1")
import tensorflow as tf
from rnnworker.recurrent import Recurrent

graphs = []
for name, cell, layers in json.loads(sys.argv[1]):
    with tf.Graph().as_default() as graph:
        rnn = {"implementation": name}
        inputs = tf.keras.layers.Input((7, 3))
        recurrent = Recurrent(tf.keras, {"cell": {"name": cell}, "rnn": rnn})
        layer = recurrent.stack(4, layers=layers, bidirectional=True)
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
    arguments = (GRAPH, json.dumps(IN_TENSORFLOW_1))
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


results = {"both": {"cudnn": shape_or_error(build("cudnn", "lstm", both=True))}}
for cell in ("lstm", "gru"):
    names = ("cudnn", "keras", "auto")
    results[cell] = {name: shape_or_error(build(name, cell)) for name in names}
    results[cell]["gpu"] = on_a_gpu(cell)
print(json.dumps(results))
"""


def test_cudnn_or_an_error_in_every_step_of_torch(tmp_path_factory) -> None:
    arguments = {"temporary": tmp_path_factory, "CUDA_VISIBLE_DEVICES": ""}
    results = answer_of("keras3_torch", TORCH, **arguments)
    for result in results.values():
        assert "Keras would run its loop in place of cuDNN" in result["cudnn"]
    for cell in ("lstm", "gru"):
        assert results[cell]["keras"] == results[cell]["auto"] == [2, 4]
        assert results[cell]["gpu"] == "MemoryError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED"
