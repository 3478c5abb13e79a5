#!/usr/bin/env bash
# Bidirectional(LSTM(8), backward_layer=LSTM(10)), whose outputs are joined, in a model; then a Dense layer behind it.
#
# Expected: 18 values for a sample, as the model says and as it computes.
# What happens: in Keras 3.15 the model says 16, twice the width of the forward layer, and computes 18. The Dense layer gets weights for
#   16, so that the first call ends in a ValueError. In Keras 2.15 both are 18, and the Dense layer works.
# Versions: keras 3.15.1 with jax 0.10.2, keras 2.15.0 with tensorflow-cpu 2.15.1, Python 3.11.
# Seen on 2026-11-30:
#   keras 2.15.0: says 18, computes 18   with Dense: (2, 1)
#   keras 3.15.1: says 16, computes 18   with Dense: ValueError
# Why it matters: a model with a narrow look ahead moves to Keras 3 as code and as a file, and fails there or is announced with another width.
set -euo pipefail
command -v python3.11 > /dev/null || { echo "this needs python3.11"; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OMP_NUM_THREADS=1 TF_CPP_MIN_LOG_LEVEL=3 CUDA_VISIBLE_DEVICES=-1

cat > "$folder/directions.py" <<'PY'
import sys

import keras
import numpy as np

samples = np.ones((2, 5, 3), "float32")
inputs = keras.Input((5, 3))
backward = keras.layers.LSTM(10, go_backwards=True)
joined = keras.layers.Bidirectional(keras.layers.LSTM(8), backward_layer=backward)(inputs)
model = keras.Model(inputs, joined)
said = model.output_shape[-1]
computed = model.predict(samples, verbose=0).shape[-1]
try:
    followed = keras.Model(inputs, keras.layers.Dense(1)(joined))
    end = str(followed.predict(samples, verbose=0).shape)
except ValueError as error:
    end = type(error).__name__
print(f"keras {keras.__version__}: says {said}, computes {computed}   with Dense: {end}")
if (str(said), computed, end) != (sys.argv[1], 18, sys.argv[2]):
    sys.exit("differs from the header")
PY

python3.11 -m venv "$folder/old"
"$folder/old/bin/pip" install -q 'tensorflow-cpu==2.15.1' 'keras==2.15.0'
python3.11 -m venv "$folder/new"
"$folder/new/bin/pip" install -q 'keras==3.15.1' 'jax==0.10.2'
"$folder/old/bin/python" "$folder/directions.py" 18 "(2, 1)" 2> "$folder/log" || { tail -5 "$folder/log"; exit 1; }
KERAS_BACKEND=jax "$folder/new/bin/python" "$folder/directions.py" 16 ValueError 2> "$folder/log" || { tail -5 "$folder/log"; exit 1; }
