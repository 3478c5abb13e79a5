#!/usr/bin/env bash
# A batch of streams with states handed on from call to call; one of them has nothing new, so its length is 0.
#
# Expected: its last state is the state that was handed in, as in Keras, where a sample without a valid step keeps it.
# What happens: onnxruntime and OpenVINO (fixed shapes) return 0 for it, whatever came in: the stream has forgotten everything. flax
#   returns the state after all steps of the padding. Longer samples of the same call are right everywhere.
# Versions: onnxruntime 1.32.0, openvino 2026.4.1, onnx 1.23.2, flax 0.12.8, keras 3.15.1, jax 0.10.2, numpy 2.4.6. Python 3.11.
# Seen on 2026-11-29, random initial states: largest difference of the last state
#   onnxruntime and OpenVINO, LSTM, GRU, RNN, forward and reverse: to 0: 0; to the one handed in: 1.3
#   flax GRU: to that after the padding 0, to the one handed in 1.9    Keras GRU with a mask: to the one handed in 0
# Why it matters: a server that collects the new steps of many streams into a batch wipes the memory of each stream that had none.
set -euo pipefail
command -v python3.11 > /dev/null || { echo "this needs python3.11"; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OMP_NUM_THREADS=1 KERAS_BACKEND=jax JAX_PLATFORMS=cpu

cat > "$folder/streams.py" <<'PY'
import sys

import jax
import keras
import numpy as np
import onnx
import onnxruntime
import openvino
from flax import nnx
from onnx import TensorProto, helper, numpy_helper

UNITS, STEPS, LENGTHS = 6, 5, np.array([5, 3, 0], "int32")
BATCH = len(LENGTHS)
stream = np.random.default_rng(0)
x = stream.normal(size=(STEPS, BATCH, UNITS)).astype("float32")
states = {name: stream.normal(size=(1, BATCH, UNITS)).astype("float32") for name in ("h", "c")}
wrong = False


def judge(name, found, given, expected):
    """`found`: last state of the stream without news."""
    global wrong
    to_given, to_expected = np.abs(found - given).max(), np.abs(found - expected).max()
    print(f"{name}: to the state handed in {to_given:.1f}, to that of the header {to_expected:.0e}", flush=True)
    wrong = wrong or to_expected > 1e-6 or (name != "Keras GRU" and to_given < 0.1)


def node(operator, gates, direction):
    weights = []
    for name in ("W", "R"):
        values = stream.normal(0, 0.3, (1, gates * UNITS, UNITS)).astype("float32")
        weights.append(numpy_helper.from_array(values, name))
    names = {"LSTM": ("h", "c")}.get(operator, ("h",))
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape),
        helper.make_tensor_value_info("lengths", TensorProto.INT32, [BATCH]),
    ]
    outputs = [helper.make_tensor_value_info("Y", TensorProto.FLOAT, [STEPS, 1, BATCH, UNITS])]
    for name in names:
        inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, BATCH, UNITS]))
        outputs.append(helper.make_tensor_value_info("Y_" + name, TensorProto.FLOAT, [1, BATCH, UNITS]))
    made = helper.make_node(
        operator,
        ["x", "W", "R", "", "lengths", *names],
        [output.name for output in outputs],
        hidden_size=UNITS,
        direction=direction,
    )
    graph = helper.make_graph([made], "layer", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    return model.SerializeToString(), {"x": x, "lengths": LENGTHS, **{name: states[name] for name in names}}


core = openvino.Core()
for operator, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
    for direction in ("forward", "reverse"):
        file, feed = node(operator, gates, direction)
        options = {"INFERENCE_PRECISION_HINT": "f32"}
        compiled = core.compile_model(core.read_model(file), "CPU", options)
        by_openvino = compiled(feed)
        answers = {
            "onnxruntime": onnxruntime.InferenceSession(file).run(None, feed),
            "OpenVINO": [by_openvino[output] for output in compiled.outputs],
        }
        for runtime, answer in answers.items():
            for name, last in zip(("h", "c"), answer[1:]):
                title = f"{runtime} {operator} {direction} {name}"
                judge(title, last[0, 2], states[name][0, 2], np.zeros(UNITS, "float32"))

by_sample, h = x.transpose(1, 0, 2), states["h"][0]
layer = nnx.RNN(nnx.GRUCell(UNITS, UNITS, rngs=nnx.Rngs(0)), return_carry=True)
carry, _ = layer(by_sample, initial_carry=jax.numpy.asarray(h), seq_lengths=LENGTHS)
of_padding, _ = layer(by_sample, initial_carry=jax.numpy.asarray(h))
judge("flax GRU", np.asarray(carry[2]), h[2], np.asarray(of_padding[2]))
mask = np.arange(STEPS) < LENGTHS[:, None]
last = keras.layers.GRU(UNITS)(by_sample, mask=mask, initial_state=h)
judge("Keras GRU", np.asarray(last)[2], h[2], h[2])
if wrong:
    sys.exit("differs from the header")
PY

python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q 'onnxruntime==1.32.0' 'openvino==2026.4.1' 'onnx==1.23.2' 'flax==0.12.8' 'keras==3.15.1' 'jax==0.10.2' \
  'numpy==2.4.6'
"$folder/venv/bin/python" -W ignore "$folder/streams.py" 2> "$folder/err" || { tail -3 "$folder/err"; exit 1; }
