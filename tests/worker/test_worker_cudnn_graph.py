"""The graphs of GPU-only layers, as far as a CPU can build them; masks; both directions."""

from __future__ import annotations

import sys

import pytest

from tests.conftest import ROOT
from tests.worker.building import answer, build_python

SCRIPT = """
import json, os
os.environ.update(KERAS_BACKEND="tensorflow", TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1")
import numpy, tensorflow as tf, keras
from rnnworker.recurrent import Recurrent


def recurrent(name, cell="lstm", **rnn):
    return Recurrent(keras, {"cell": {"name": cell}, "rnn": dict(rnn, implementation=name)})


def raw(cell, op, both=False, stacked=1, sequences=False):
    layers = recurrent("cudnn_raw", cell, options={"op": op})
    inputs = keras.layers.Input((7, 3))
    layer = layers.stack(4, stacked, both, return_sequences=sequences)
    model = keras.models.Model(inputs, layer(inputs))

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(x))
        return tape.gradient(loss, [v.value for v in model.trainable_variables])

    graph = step.get_concrete_function(tf.TensorSpec([2, 7, 3])).graph
    arrays = layers.to_canonical(layers.layers[0])
    ops = [op for op in graph.get_operations() if op.type.startswith("Cudnn")]
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
    "raw": {c: raw(c, "CudnnRNNV2") for c in ("lstm", "gru", "rnn_tanh", "rnn_relu")},
    "v3": raw("lstm", "CudnnRNNV3"),
    "both": raw("gru", "CudnnRNNV2", both=True),
    "stack": raw("lstm", "CudnnRNNV2", both=True, stacked=3, sequences=True),
    "stack_v3": raw("rnn_tanh", "CudnnRNNV3", stacked=2),
    "other_op": error(lambda: recurrent("cudnn_raw", options={"op": "CudnnRNN"})(4)),
    "cudnn_on_cpu": error(lambda: recurrent("cudnn")(4)(X)),
    "cudnn_simple": error(lambda: recurrent("cudnn", "rnn_tanh")(4)),
    "cudnn_dropout": error(lambda: recurrent("cudnn")(4, recurrent_dropout=0.2)),
    "masked": {name: masked(name) for name in ("block", "block_cell", "cudnn_raw", "keras")},
    "both_settings": {n: settings_of_both(n) for n in ("keras", "auto", "cudnn")},
    "legacy": error(lambda: recurrent("legacy_cudnn")(4)),
    "none": error(lambda: recurrent("none")(4)),
}))
"""


@pytest.fixture(scope="module")
def results() -> dict:
    return answer(sys.executable, SCRIPT)


GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


@pytest.mark.parametrize("cell", GATES)
def test_the_raw_op_and_its_gradient_are_in_the_graph(results: dict, cell: str) -> None:
    layer = results["raw"][cell]
    assert layer["ops"] == ["CudnnRNNBackpropV2", "CudnnRNNV2"]
    columns = GATES[cell] * 4
    bias = [2, columns] if cell == "gru" else [columns]
    assert layer["shapes"] == {"kernel": [3, columns], "recurrent": [4, columns], "bias": bias}
    assert layer["parameters"] == columns * (3 + 4 + (2 if cell == "gru" else 1))
    assert layer["output"] == [None, 4]


def test_an_option_chooses_version_3_of_the_op(results: dict) -> None:
    assert results["v3"]["ops"] == ["CudnnRNNBackpropV3", "CudnnRNNV3"]
    assert "'CudnnRNN' must be one of CudnnRNNV2, CudnnRNNV3" in results["other_op"]


def test_each_direction_has_separate_canonical_arrays(results: dict) -> None:
    layer = results["both"]
    assert layer["output"] == [None, 8]
    assert layer["parameters"] == 2 * results["raw"]["gru"]["parameters"]
    directions = ("forward", "backward")
    names = {f"{direction}_{n}" for direction in directions for n in results["v3"]["shapes"]}
    assert set(layer["shapes"]) == names
    assert (layer["ops"], layer["direction"]) == (results["raw"]["gru"]["ops"], "bidirectional")


def test_a_stack_is_one_op_on_one_buffer(results: dict) -> None:
    """TensorFlow's shape inference: sequences (time, batch, features), states (layers · directions,
    batch, units), outputs of both directions."""
    stack = results["stack"]
    assert (stack["ops"], stack["direction"]) == (
        ["CudnnRNNBackpropV2", "CudnnRNNV2"],
        "bidirectional",
    )
    size = 4 * 4 * (2 * (3 + 4) + 4 * (8 + 4) + 6 * 2)
    assert stack["inferred"] == [[7, 2, 3], [6, 2, 4], [size]]
    assert stack["op_output"] == [7, 2, 8]
    assert stack["output"] == [None, 7, 8]
    assert stack["parameters"] == size - 6 * 4 * 4
    assert stack["shapes"]["layer0_backward_kernel"] == [3, 16]
    assert stack["shapes"]["layer2_forward_kernel"] == [8, 16]
    assert len(stack["shapes"]) == 18
    other = results["stack_v3"]
    assert (other["ops"], other["direction"]) == (
        ["CudnnRNNBackpropV3", "CudnnRNNV3"],
        "unidirectional",
    )
    assert other["inferred"][1] == [2, 2, 4]
    assert other["output"] == [None, 4]


def test_cudnn_or_an_error(results: dict) -> None:
    assert "use_cudnn=True was specified" in results["cudnn_on_cpu"]
    assert "for lstm and gru only" in results["cudnn_simple"]
    assert "no recurrent dropout" in results["cudnn_dropout"]


def test_bidirectional_keeps_settings_that_keras_omits_from_a_config(results: dict) -> None:
    assert results["both_settings"] == {
        "keras": [False, False],
        "auto": ["auto", "auto"],
        "cudnn": [True, True],
    }


def test_a_mask_that_would_be_ignored_is_an_error(results: dict) -> None:
    masked = results["masked"]
    assert masked.pop("keras") is None
    assert all("does not support a mask" in message for message in masked.values()), masked


def test_layers_that_this_build_lacks_are_an_error(results: dict) -> None:
    assert "has no CuDNNLSTM" in results["legacy"]
    assert "rnn=none" in results["none"]


LEGACY = """
import json, os, sys
os.environ.update(
    TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1", TF_USE_LEGACY_KERAS="1"
)
sys.path.insert(0, sys.argv[1])
import tensorflow as tf
from rnnworker.recurrent import Recurrent

config = {"cell": {"name": "lstm"}, "rnn": {"implementation": "legacy_cudnn"}}
inputs = tf.keras.layers.Input((7, 3))
model = tf.keras.models.Model(inputs, Recurrent(tf.keras, config)(4)(inputs))
variables = model.trainable_variables


@tf.function
def step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(x))
    return tape.gradient(loss, variables)


graph = step.get_concrete_function(tf.TensorSpec([2, 7, 3])).graph
ops = sorted({op.type for op in graph.get_operations() if op.type.startswith("Cudnn")})
print(json.dumps({"shapes": [list(variable.shape) for variable in variables], "ops": ops}))
"""


def test_keras_2s_lstm_on_tensorflow_2_trains_one_bias(tmp_path_factory) -> None:
    python = build_python("tf_2_21_keras2", "3.11", tmp_path_factory)
    layer = answer(python, LEGACY, ROOT / "src")
    assert layer["shapes"] == [[3, 16], [4, 16], [16]]
    assert layer["ops"] == ["CudnnRNNBackpropV3", "CudnnRNNV3"]
