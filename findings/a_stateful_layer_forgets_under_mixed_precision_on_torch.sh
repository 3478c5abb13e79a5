#!/usr/bin/env bash
# LSTM(stateful=True) under the policies float32, mixed_float16 and mixed_bfloat16 on torch and jax, called twice with the same input.
#
# Expected: the second call starts from the state of the first, so its output differs, under each policy.
# What happens: on torch with a mixed policy, the kept state stays 0, and both calls return the same. No error, no warning; the layer's
#   stateful is True. LSTM, GRU, SimpleRNN and RNN(LSTMCell) are alike. In float32, and on jax under each policy, the state is kept.
# Versions: keras 3.15.1, torch 2.13.0 (its CPU build is enough), jax 0.10.2. Python 3.11.
# Seen on 2026-11-29: largest difference between the two calls of an LSTM, and largest kept state
#   torch float32 0.080 0.503, mixed_float16 0.000 0.000, mixed_bfloat16 0.000 0.000
#   jax   float32 0.080 0.503, mixed_float16 0.080 0.503, mixed_bfloat16 0.081 0.500
# Why it matters: a streaming model that is switched to mixed precision on torch reads each chunk as if it were the first.
set -euo pipefail
command -v python3.11 > /dev/null || { echo "this needs python3.11"; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OMP_NUM_THREADS=1 CUDA_VISIBLE_DEVICES=-1 JAX_PLATFORMS=cpu

cat > "$folder/twice.py" <<'PY'
import sys

import keras
import numpy as np
from keras import layers, ops

x = np.random.default_rng(1).normal(size=(4, 4, 3)).astype("float32")
backend = keras.backend.backend()
MAKERS = {
    "LSTM": lambda: layers.LSTM(5, stateful=True),
    "GRU": lambda: layers.GRU(5, stateful=True),
    "SimpleRNN": lambda: layers.SimpleRNN(5, stateful=True),
    "RNN(LSTMCell)": lambda: layers.RNN(layers.LSTMCell(5), stateful=True),
}


def array(value):
    return np.asarray(ops.convert_to_numpy(ops.cast(value, "float32")))


wrong = []
for policy in ("float32", "mixed_float16", "mixed_bfloat16"):
    keras.config.set_dtype_policy(policy)
    for name, make in MAKERS.items():
        layer = make()
        layer.build(x.shape)
        stream = np.random.default_rng(3)
        for variable in layer.trainable_variables:
            variable.assign(stream.uniform(-0.7, 0.7, variable.shape).astype("float32"))
        first = array(layer(ops.convert_to_tensor(x)))
        kept = max(float(np.abs(array(state.value)).max()) for state in keras.tree.flatten(layer.states))
        second = array(layer(ops.convert_to_tensor(x)))
        apart = float(np.abs(second - first).max())
        print(backend, policy, name, f"{apart:.3f} {kept:.3f}", flush=True)
        forgets = backend == "torch" and policy != "float32"
        if (apart == 0 and kept == 0) != forgets or not (forgets or apart > 0.02):
            wrong.append((policy, name))
if wrong:
    sys.exit(f"differs from the header: {wrong}")
PY

python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q 'keras==3.15.1' 'torch==2.13.0' 'jax==0.10.2'
for backend in torch jax; do
    KERAS_BACKEND=$backend "$folder/venv/bin/python" -W ignore "$folder/twice.py" 2> "$folder/err" || { tail -3 "$folder/err"; exit 1; }
done
