#!/usr/bin/env bash
# A subclassed model that updates a Mean of its own in call, to watch the size of its outputs.
#
# Expected: fit trains it and reports the metric beside the loss, on each backend.
# What happens: it does on TensorFlow. On jax, fit raises TypeError "'NoneType' object is not callable", which names neither the
#   metric nor the model: Keras takes the values out of all variables before a compiled step, and gives call those of the weights
#   back, not those of metrics.
# Versions: keras 3.15.1, jax 0.10.2, tensorflow-cpu 2.21.0, Python 3.11.
# Seen on 2026-11-30:
#   tensorflow: loss, size
#   jax: TypeError
# Why it matters: a model with a diagnosis inside cannot move to jax as code, and the error does not say why.
set -euo pipefail
command -v python3.11 > /dev/null || { echo "this needs python3.11"; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OMP_NUM_THREADS=1 TF_CPP_MIN_LOG_LEVEL=3 CUDA_VISIBLE_DEVICES=-1

cat > "$folder/watched.py" <<'PY'
import sys

import keras
import numpy as np


class Watched(keras.Model):
    def __init__(self):
        super().__init__()
        self.last = keras.layers.Dense(1)
        self.size = keras.metrics.Mean(name="size")

    def call(self, inputs):
        outputs = self.last(inputs)
        self.size.update_state(keras.ops.abs(outputs))
        return outputs


model = Watched()
model.compile("sgd", "mse")
x = np.ones((8, 4), "float32")
try:
    seen = ", ".join(sorted(model.fit(x, x[:, :1], verbose=0).history))
except TypeError as error:
    seen = "TypeError" if "'NoneType' object is not callable" in str(error) else str(error)
print(f"{keras.backend.backend()}: {seen}")
if seen != sys.argv[1]:
    sys.exit("differs from the header")
PY

python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q 'keras==3.15.1' 'tensorflow-cpu==2.21.0' 'jax==0.10.2'
run() {
  KERAS_BACKEND=$1 "$folder/venv/bin/python" "$folder/watched.py" "$2" 2> "$folder/log" || { tail -5 "$folder/log"; exit 1; }
}
run tensorflow "loss, size"
run jax TypeError
