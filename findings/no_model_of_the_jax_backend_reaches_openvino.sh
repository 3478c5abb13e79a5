#!/usr/bin/env bash
# Keras's export to OpenVINO of models on its jax backend: a Dense layer, an LSTM and an unrolled LSTM.
#
# Expected: Keras 3.15.1 has code for that backend (through jax2tf), so what needs no loop converts: Dense and the unrolled LSTM.
# What happens: no file is read, not even that of a Dense layer. jax2tf wraps the whole model into one operation, XlaCallModule, for
#   which OpenVINO has no rule. Keras asks jax for the older form (native_serialization=False), which this jax ignores with a warning.
#   With the TensorFlow backend, Dense and the unrolled LSTM convert.
# Versions: keras 3.15.1, jax 0.10.2, tensorflow-cpu 2.21.0, openvino 2026.4.1. Python 3.11.
# Seen on 2026-11-30:
#   jax: Dense XlaCallModule, LSTM XlaCallModule, LSTM unrolled XlaCallModule
#   tensorflow: Dense converts, LSTM TensorList, LSTM unrolled converts
# Why it matters: a plan to train on jax and serve with OpenVINO.
set -euo pipefail
command -v python3.11 > /dev/null || { echo "this needs python3.11"; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TF_CPP_MIN_LOG_LEVEL=3 CUDA_VISIBLE_DEVICES=-1

cat > "$folder/export.py" <<'PY'
import os
import re
import sys

import keras
import numpy as np
from keras import layers

backend = keras.backend.backend()
expected = {
    "jax": ["XlaCallModule", "XlaCallModule", "XlaCallModule"],
    "tensorflow": ["converts", "TensorList", "converts"],
}
kinds = {
    "Dense": layers.Dense(8),
    "LSTM": layers.LSTM(8),
    "LSTM unrolled": layers.LSTM(8, unroll=True),
}
seen = []
for name, layer in kinds.items():
    inputs = keras.Input((7, 3))
    model = keras.Model(inputs, layer(inputs))
    model(np.zeros((2, 7, 3), "float32"))
    try:
        model.export(os.path.join(sys.argv[1], f"{backend}.xml"), format="openvino", verbose=False)
        seen.append("converts")
    except Exception as error:
        found = re.search(r"No conversion rule found for operations: (\w+)", str(error))
        seen.append(found.group(1) if found else f"{type(error).__name__}: {error}")
print(f"{backend}:", ", ".join(f"{name} {what}" for name, what in zip(kinds, seen)), flush=True)
if seen != expected[backend]:
    sys.exit("differs from the header")
PY

python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q 'keras==3.15.1' 'jax==0.10.2' 'tensorflow-cpu==2.21.0' 'openvino==2026.4.1'
for backend in jax tensorflow; do
    KERAS_BACKEND=$backend "$folder/venv/bin/python" "$folder/export.py" "$folder" 2> "$folder/err" || { tail -3 "$folder/err"; exit 1; }
done
