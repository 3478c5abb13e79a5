#!/usr/bin/env bash
# LSTM(use_cudnn=True) and GRU(use_cudnn=True) of Keras 3 on a machine without a GPU.
#
# Expected: an error: "auto" takes cuDNN where it can be had, True demands it.
# What happens: on TensorFlow both raise. On torch neither does, not even with an activation that cuDNN does not have: the generic layer
#   computes, without a word. On jax the LSTM raises and the GRU computes.
# Versions: keras 3.15.1, tensorflow-cpu 2.21.0, torch 2.13.0 (CPU build), jax 0.10.2. Python 3.11. No GPU is needed.
# Seen on 2026-11-29: LSTM, LSTM with relu, GRU, GRU with relu
#   tensorflow  ValueError ValueError ValueError ValueError
#   torch       computes computes computes computes
#   jax         ValueError ValueError computes computes
# Why it matters: a benchmark or a deployment that asks for cuDNN, in order to fail otherwise, measures or serves the generic loop.
set -euo pipefail
command -v python3.11 > /dev/null || { echo "this needs python3.11"; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TF_CPP_MIN_LOG_LEVEL=3 OMP_NUM_THREADS=1 CUDA_VISIBLE_DEVICES=-1 JAX_PLATFORMS=cpu

cat > "$folder/demand.py" <<'PY'
import sys

import keras
import numpy as np

EXPECTED = {
    "tensorflow": ["ValueError"] * 4,
    "torch": ["computes"] * 4,
    "jax": ["ValueError", "ValueError", "computes", "computes"],
}
seen = []
for make in (keras.layers.LSTM, keras.layers.GRU):
    for activation in ("tanh", "relu"):
        try:
            make(4, activation=activation, use_cudnn=True)(np.zeros((2, 3, 4), "float32"))
            seen.append("computes")
        except ValueError as error:
            assert "cudnn" in str(error).lower(), error
            seen.append("ValueError")
backend = keras.backend.backend()
print(f"{backend:11}", *seen, flush=True)
if seen != EXPECTED[backend]:
    sys.exit("differs from the header")
PY

python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q 'keras==3.15.1' 'tensorflow-cpu==2.21.0' 'torch==2.13.0' 'jax==0.10.2'
for backend in tensorflow torch jax; do
    KERAS_BACKEND=$backend "$folder/venv/bin/python" "$folder/demand.py" 2> "$folder/err" || { tail -3 "$folder/err"; exit 1; }
done
