#!/usr/bin/env bash
# One ONNX LSTM, GRU or RNN node with sequence_lens, in OpenVINO on a CPU: once with its shapes written into the graph, once with a free
# batch and length. The same arrays are asked of both.
#
# Expected: the same last states, those of the last valid step of each sample, as in onnxruntime.
# What happens: with fixed shapes Y and Y_h are those of onnxruntime. With free shapes the node goes on through the padding, without
#   a word: Y_h is the state after its last step, and Y has numbers behind the length of a sample where it should have zeros. Within
#   the lengths Y is right.
# Versions: openvino 2026.4.1, onnxruntime 1.32.0, onnx 1.23.2, numpy 2.4.6, Python 3.11.
# Seen on 2026-11-29: the largest differences to onnxruntime, with free shapes (with fixed ones all are below 3e-7):
#   LSTM: Y 0.78, within the lengths 1e-07, Y_h 0.36   GRU: 0.99, 1e-07, 1.2   RNN: 1.0, 2e-07, 2.0
# Why it matters: a masked model that is exported with a free batch answers for padded sequences with the state of the padding, and a
#   check with one fixed shape does not show it. Take the last outputs from Y instead.
set -euo pipefail
command -v python3.11 > /dev/null || { echo "this needs python3.11"; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cat > "$folder/lengths.py" <<'PY'
import sys

import numpy as np
import onnx
import onnxruntime
import openvino
from onnx import TensorProto, helper

BATCH, STEPS, INPUTS, UNITS = 3, 7, 4, 5
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
random = np.random.default_rng(0)


def graph(op):
    """A node with its weights; inputs x (steps, batch, features) and lengths."""
    gates = GATES[op]
    weights = {
        "W": random.normal(size=(1, gates * UNITS, INPUTS)),
        "R": random.normal(size=(1, gates * UNITS, UNITS)),
        "B": random.normal(size=(1, 2 * gates * UNITS)),
    }
    arrays = [onnx.numpy_helper.from_array(a.astype("float32"), n) for n, a in weights.items()]
    node = helper.make_node(op, ["x", "W", "R", "B", "lengths"], ["Y", "Y_h"], hidden_size=UNITS)

    def model(steps, batch):
        inputs = [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [steps, batch, INPUTS]),
            helper.make_tensor_value_info("lengths", TensorProto.INT32, [batch]),
        ]
        outputs = [
            helper.make_tensor_value_info("Y", TensorProto.FLOAT, [steps, 1, batch, UNITS]),
            helper.make_tensor_value_info("Y_h", TensorProto.FLOAT, [1, batch, UNITS]),
        ]
        made = helper.make_graph([node], "g", inputs, outputs, arrays)
        return helper.make_model(
            made, opset_imports=[helper.make_opsetid("", 17)], ir_version=10
        ).SerializeToString()

    return model(STEPS, BATCH), model("steps", "batch")


def by_openvino(file, feed):
    core = openvino.Core()
    options = {"INFERENCE_PRECISION_HINT": "f32"}
    compiled = core.compile_model(core.read_model(file), "CPU", options)
    found = compiled(feed)
    return [found[output] for output in compiled.outputs]


wrong = []
for op in GATES:
    fixed, free = graph(op)
    feed = {
        "x": random.normal(size=(STEPS, BATCH, INPUTS)).astype("float32"),
        "lengths": np.array([7, 4, 2], "int32"),
    }
    expected = onnxruntime.InferenceSession(free).run(None, feed)
    within = np.arange(STEPS)[:, None] < feed["lengths"]  # steps, samples
    for kind, file in (("fixed", fixed), ("free", free)):
        y, h = (abs(a - b) for a, b in zip(by_openvino(file, feed), expected))
        inside = y[:, 0][within].max()
        print(f"{op}, {kind}: Y {y.max():.1e}, within the lengths {inside:.1e}, Y_h {h.max():.1e}")
        ignored = y.max() > 0.01 and h.max() > 0.01
        wrong.append(inside > 1e-5 or ignored != (kind == "free"))
if any(wrong):
    sys.exit("differs from the header")
PY

python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q 'openvino==2026.4.1' 'onnxruntime==1.32.0' 'onnx==1.23.2' 'numpy==2.4.6'
"$folder/venv/bin/python" "$folder/lengths.py" 2> "$folder/log" || { tail -5 "$folder/log"; exit 1; }
