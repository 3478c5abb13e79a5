#!/usr/bin/env bash
# Dropout(0.5) and LSTM(dropout=0.5) without a seed: all variables of the model, with those of its seed generators, are written back to
# what they were, and the model is called again with training=True.
#
# Expected: the same masks as before, since the seed generators count in variables of the model. So it is on jax.
# What happens: on torch the masks are others. Dropout takes torch.nn.functional.dropout, which draws from torch's own generator, unless
#   the layer states a seed; the state of its seed generator does not even change. With seed=1 the masks are the same again. The LSTM's
#   mask of its inputs is drawn in the same way.
# Versions: keras 3.15.1, torch 2.13.0 (its CPU build is enough), jax 0.10.2. Python 3.11.
# Seen on 2026-11-29, for Dropout and for LSTM alike:
#   torch seed=None: seed state changed False, same masks after it was written back False
#   torch seed=1, jax seed=None, jax seed=1: True, True
# Why it matters: a training that is repeated from a checkpoint of all variables, or two layers that are compared with equal seed states,
#   drop other units on torch only.
set -euo pipefail
command -v python3.11 > /dev/null || { echo "this needs python3.11"; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OMP_NUM_THREADS=1 CUDA_VISIBLE_DEVICES=-1 JAX_PLATFORMS=cpu

cat > "$folder/again.py" <<'PY'
import sys

import keras
import numpy as np
from keras import layers, ops

backend = keras.backend.backend()
x = np.ones((8, 6, 16), "float32")
MAKERS = {
    "Dropout": lambda seed: layers.Dropout(0.5, seed=seed),
    "LSTM": lambda seed: layers.LSTM(4, dropout=0.5, seed=seed),
}


def called(model):
    return np.asarray(ops.convert_to_numpy(model(x, training=True)))


def values(model):
    return [np.array(ops.convert_to_numpy(variable.value)) for variable in model.variables]


wrong = []
for name, make in MAKERS.items():
    for seed in (None, 1):
        keras.utils.set_random_seed(0)
        model = keras.Sequential([layers.Input(x.shape[1:]), make(seed)])
        before = values(model)
        first = called(model)
        moved = any((new != old).any() for new, old in zip(values(model), before))
        for variable, value in zip(model.variables, before):
            variable.assign(value)
        same = bool((called(model) == first).all())
        print(f"{backend} {name} seed={seed}: seed state changed {moved}, same masks after it was written back {same}", flush=True)
        if (moved, same) != ((False, False) if backend == "torch" and seed is None else (True, True)):
            wrong.append((name, seed))
if wrong:
    sys.exit(f"differs from the header: {wrong}")
PY

python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q 'keras==3.15.1' 'torch==2.13.0' 'jax==0.10.2'
for backend in torch jax; do
    KERAS_BACKEND=$backend "$folder/venv/bin/python" -W ignore "$folder/again.py" 2> "$folder/err" || { tail -3 "$folder/err"; exit 1; }
done
