#!/usr/bin/env bash
# Bidirectional(SimpleRNN(return_sequences=True)) with right padding, unroll=False against unroll=True.
#
# Expected: unroll is a matter of speed: the same numbers.
# What happens: Bidirectional asks its layers for zeros at masked steps. Unrolled on TensorFlow, the backward layer applies the mask
#   in the wrong direction of time: what it computed is zeroed where the sample is and kept where the padding is. Unrolled on jax,
#   the layers forget the zeros, so that the forward half repeats its last output over the padding.
# Versions: keras 3.15.1, tensorflow-cpu 2.21.0, jax 0.10.2. Python 3.11.
# Seen on 2026-11-28: a layer that counts steps, 3 of 6 count: forward half, backward half
#   loop, both      1 2 3 0 0 0   3 2 1 0 0 0
#   unrolled, TF    1 2 3 0 0 0   0 0 0 0 0 0
#   unrolled, jax   1 2 3 3 3 3   3 2 1 0 0 0
# Why it matters: on TensorFlow a sample that fills at most half of its steps loses its whole backward direction, and training hides it.
set -euo pipefail
command -v python3.11 > /dev/null || { echo "this needs python3.11"; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TF_CPP_MIN_LOG_LEVEL=3 OMP_NUM_THREADS=1 CUDA_VISIBLE_DEVICES=

cat > "$folder/count.py" <<'PY'
import sys

import keras
import numpy as np
from keras import layers

mask = np.array([[True, True, True, False, False, False]])
LOOP = [[1, 2, 3, 0, 0, 0], [3, 2, 1, 0, 0, 0]]
UNROLLED = {
    "tensorflow": [[1, 2, 3, 0, 0, 0], [0, 0, 0, 0, 0, 0]],
    "jax": [[1, 2, 3, 3, 3, 3], [3, 2, 1, 0, 0, 0]],
}
for unroll in (False, True):
    counter = layers.SimpleRNN(
        1,
        "linear",
        kernel_initializer="zeros",
        recurrent_initializer="ones",
        bias_initializer="ones",
        return_sequences=True,
        unroll=unroll,
    )
    halves = layers.Bidirectional(counter, merge_mode=None)(np.zeros((1, 6, 1), "float32"), mask=mask)
    counted = [np.asarray(half)[0, :, 0].astype(int).tolist() for half in halves]
    backend = keras.backend.backend()
    print(backend, "unrolled" if unroll else "loop", *counted, flush=True)
    if counted != (UNROLLED[backend] if unroll else LOOP):
        sys.exit("differs from the header")
PY

python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q 'keras==3.15.1' 'tensorflow-cpu==2.21.0' 'jax==0.10.2'
for backend in tensorflow jax; do
    KERAS_BACKEND=$backend "$folder/venv/bin/python" "$folder/count.py" 2> "$folder/err" || { tail -3 "$folder/err"; exit 1; }
done
