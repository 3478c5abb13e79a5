#!/usr/bin/env bash
# A model that was trained, then a fit whose targets have another shape: it raises an error, as it should, and the program goes on.
#
# Expected: the model is as it was before the call that failed: it predicts, is saved, and is trained with the right targets.
# What happens: on TensorFlow and torch it does. On jax the model is lost: get_weights, save, predict and fit all raise
#   TypeError: 'NoneType' object is not callable. Keras has taken the arrays out of the variables before the step, and an error in
#   it is followed by no code that puts them back. KeyboardInterrupt between two steps loses nothing.
# Versions: keras 3.15.1, jax 0.10.2, tensorflow-cpu 2.21.0, Python 3.11.
# Seen on 2026-11-30:
#   tensorflow: get_weights ok, save ok, predict ok, fit ok
#   jax:        get_weights TypeError, save TypeError, predict TypeError, fit TypeError
# Why it matters: a notebook, a search over settings or a service that catches the error of one data set loses the trained weights,
#   and the next error names neither the call that failed nor the data.
set -euo pipefail
command -v python3.11 > /dev/null || { echo "this needs python3.11"; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OMP_NUM_THREADS=1 TF_CPP_MIN_LOG_LEVEL=3 CUDA_VISIBLE_DEVICES=-1

cat > "$folder/failed.py" <<'PY'
import sys

import keras
import numpy as np

model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("adam", "mse")
x = np.ones((32, 4), "float32")
model.fit(x, x[:, :1], batch_size=8, verbose=0)
try:
    model.fit(x, np.ones((32, 3, 2), "float32"), batch_size=8, verbose=0)
    sys.exit("the wrong targets raised no error")
except Exception:
    pass
calls = {
    "get_weights": model.get_weights,
    "save": lambda: model.save(sys.argv[2]),
    "predict": lambda: model.predict(x, verbose=0),
    "fit": lambda: model.fit(x, x[:, :1], batch_size=8, verbose=0),
}
seen = []
for name, call in calls.items():
    try:
        call()
        seen.append(f"{name} ok")
    except TypeError as error:
        seen.append(f"{name} {type(error).__name__}")
print(f"{keras.backend.backend()}: {', '.join(seen)}")
if not all(each.endswith(sys.argv[1]) for each in seen):
    sys.exit("differs from the header")
PY

python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q 'keras==3.15.1' 'tensorflow-cpu==2.21.0' 'jax==0.10.2'
run() {
  KERAS_BACKEND=$1 "$folder/venv/bin/python" "$folder/failed.py" "$2" "$folder/m.keras" 2> "$folder/log" || { tail -5 "$folder/log"; exit 1; }
}
run tensorflow ok
run jax TypeError
