#!/usr/bin/env bash
# quantize_dynamic of onnxruntime on ONNX models with one LSTM, one GRU or one RNN.
#
# Expected: all three get 8-bit weights; the three operators differ in their gates only.
# What happens: LSTM becomes DynamicQuantizeLSTM and a quarter of its size. GRU and RNN stay as they are: the call succeeds, no warning is
#   given, and the "quantized" file is a few bytes larger than the original.
# Versions: onnxruntime 1.32.0, onnx 1.23.2. Python 3.11.
# Seen on 2026-11-29: size after / before, operator
#   LSTM 0.25 DynamicQuantizeLSTM, GRU 1.00 GRU, RNN 1.00 RNN
# Why it matters: who serves a GRU measures a quantized model that is not, and finds quantization free of any loss.
set -euo pipefail
command -v python3.11 > /dev/null || { echo "this needs python3.11"; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OMP_NUM_THREADS=1

cat > "$folder/quantize.py" <<'PY'
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

UNITS = 64
stream = np.random.default_rng(0)
for operator, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
    constants = []
    for name in ("W", "R"):
        values = stream.normal(0, 0.1, (1, gates * UNITS, UNITS)).astype("float32")
        constants.append(numpy_helper.from_array(values, name))
    node = helper.make_node(operator, ["X", "W", "R"], ["Y"], hidden_size=UNITS)
    graph = helper.make_graph(
        [node],
        "layer",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, [20, 2, UNITS])],
        [helper.make_tensor_value_info("Y", TensorProto.FLOAT, [20, 1, 2, UNITS])],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    before, after = (os.path.join(sys.argv[1], f"{operator}{end}.onnx") for end in ("", "_int8"))
    onnx.save(model, before)
    quantize_dynamic(before, after, weight_type=QuantType.QInt8)
    ratio = os.path.getsize(after) / os.path.getsize(before)
    operators = [node.op_type for node in onnx.load(after).graph.node]
    print(operator, f"{ratio:.2f}", *operators, flush=True)
    quantized = operator == "LSTM"
    expected = ["DynamicQuantizeLSTM"] if quantized else [operator]
    if operators != expected or (ratio < 0.3) != quantized:
        sys.exit("differs from the header")
PY

python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q 'onnxruntime==1.32.0' 'onnx==1.23.2'
"$folder/venv/bin/python" "$folder/quantize.py" "$folder" 2> "$folder/err" || { tail -3 "$folder/err"; exit 1; }
