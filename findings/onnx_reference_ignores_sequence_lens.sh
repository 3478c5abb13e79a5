#!/usr/bin/env bash
# The reference evaluator of onnx and onnxruntime on LSTM, GRU and RNN with sequence_lens, for a batch of the lengths 20 and 5.
#
# Expected: the reference defines the operator, so both agree; or it says that it cannot do it.
# What happens: the reference computes all 20 steps of both samples, without an error or a warning. onnxruntime stops at step 5: its
#   outputs are 0 behind it, and its last state is that of step 5. Without sequence_lens both agree to 1e-6.
# Versions: onnx 1.23.2, onnxruntime 1.32.0. Python 3.11.
# Seen on 2026-11-29: largest differences of the outputs, without and with sequence_lens
#   LSTM 1e-07 0.5, GRU 2e-07 0.8, RNN 3e-07 1.0
# Why it matters: who checks an exported model with padding against the reference finds a fault in the runtime that is right.
set -euo pipefail
command -v python3.11 > /dev/null || { echo "this needs python3.11"; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OMP_NUM_THREADS=1

cat > "$folder/lengths.py" <<'PY'
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

UNITS, STEPS, LENGTHS = 16, 20, np.array([20, 5], "int32")
stream = np.random.default_rng(0)
x = stream.normal(size=(STEPS, 2, UNITS)).astype("float32")
for operator, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
    constants = []
    for name in ("W", "R"):
        values = stream.normal(0, 0.2, (1, gates * UNITS, UNITS)).astype("float32")
        constants.append(numpy_helper.from_array(values, name))
    gaps = []
    for has_lengths in (False, True):
        feed = {"X": x}
        names = ["X", "W", "R"]
        inputs = [helper.make_tensor_value_info("X", TensorProto.FLOAT, [STEPS, 2, UNITS])]
        if has_lengths:
            feed["lengths"] = LENGTHS
            names += ["", "lengths"]
            inputs.append(helper.make_tensor_value_info("lengths", TensorProto.INT32, [2]))
        node = helper.make_node(operator, names, ["Y", "Y_h"], hidden_size=UNITS)
        outputs = [
            helper.make_tensor_value_info("Y", TensorProto.FLOAT, [STEPS, 1, 2, UNITS]),
            helper.make_tensor_value_info("Y_h", TensorProto.FLOAT, [1, 2, UNITS]),
        ]
        graph = helper.make_graph([node], "layer", inputs, outputs, constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        onnx.checker.check_model(model)
        runtime, last = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feed)
        reference, _ = ReferenceEvaluator(model).run(None, feed)
        gaps.append(float(np.abs(runtime - reference).max()))
        if has_lengths:
            assert not runtime[5:, 0, 1].any() and np.array_equal(last[0, 1], runtime[4, 0, 1])
            assert reference[5:, 0, 1].any()
    print(operator, *(f"{gap:.0e}" for gap in gaps), flush=True)
    if gaps[0] > 1e-5 or gaps[1] < 0.1:
        sys.exit("differs from the header")
PY

python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q 'onnxruntime==1.32.0' 'onnx==1.23.2'
"$folder/venv/bin/python" "$folder/lengths.py" 2> "$folder/err" || { tail -3 "$folder/err"; exit 1; }
