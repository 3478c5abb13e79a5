#!/usr/bin/env bash
# Three calls of fit of a model whose optimizer has use_ema=True: Keras then ends each fit with the moving mean of the weights in their place.
#
# Expected: the training goes on in each call, as without use_ema.
# What happens: on TensorFlow it does. On jax the first call ends well, and the second one raises TypeError: 'NoneType' object is not callable.
#   A weight and its mean are one array after the first call. If each weight gets a copy of itself, the second call works.
# Versions: keras 3.15.1, jax 0.10.2, tensorflow-cpu 2.21.0, Python 3.11.
# Seen on 2026-11-30:
#   tensorflow: ok ok ok        with copies: ok ok ok
#   jax:        ok TypeError    with copies: ok ok ok
# Why it matters: a curriculum, a fine-tuning or a search that calls fit again loses its run after the first stage, with an error that
#   names neither the optimizer nor the mean.
set -euo pipefail
command -v python3.11 > /dev/null || { echo "this needs python3.11"; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OMP_NUM_THREADS=1 TF_CPP_MIN_LOG_LEVEL=3 CUDA_VISIBLE_DEVICES=-1

cat > "$folder/again.py" <<'PY'
import sys

import keras
import numpy as np


def calls(copies):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.1, use_ema=True), "mse")
    x = np.ones((32, 4), "float32")
    ends = []
    for _ in range(3):
        try:
            model.fit(x, x[:, :1], batch_size=8, verbose=0)
        except TypeError as error:
            return f"{' '.join(ends)} {type(error).__name__}"
        ends.append("ok")
        if copies:
            for variable in model.variables:
                variable.assign(np.array(variable))
    return " ".join(ends)


seen = calls(False), calls(True)
print(f"{keras.backend.backend()}: {seen[0]}   with copies: {seen[1]}")
if seen != (sys.argv[1], "ok ok ok"):
    sys.exit("differs from the header")
PY

python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q 'keras==3.15.1' 'tensorflow-cpu==2.21.0' 'jax==0.10.2'
run() {
  KERAS_BACKEND=$1 "$folder/venv/bin/python" "$folder/again.py" "$2" 2> "$folder/log" || { tail -5 "$folder/log"; exit 1; }
}
run tensorflow "ok ok ok"
run jax "ok TypeError"
