#!/usr/bin/env bash
# Two padded sequences meet in Add, Multiply or Concatenate, and a recurrent layer reads the result.
#
# Expected: a step counts if it counts in both inputs, as in Keras 2, and if only one of the inputs has a mask, its mask
#   stays (a residual connection around a layer that drops the mask).
# What happens: Keras 2.15 joins the masks by AND and uses the one mask that exists. Keras 3 joins them by OR, and one
#   input without a mask removes the mask of the other without a warning: the layer behind runs over the padding.
# Versions: tensorflow-cpu 2.15.1 (Keras 2.15); keras 3.15.1 with jax 0.10.2. Python 3.11.
# Seen on 2026-11-28: the number of steps that a counting SimpleRNN reads, lengths 3 and 5 of 6:
#   2.15    Add 3 3, Multiply 3 3, Concatenate 3 3      (both masked; only the first masked)
#   3.15.1  Add 5 6, Multiply 5 6, Concatenate 5 6
# Why it matters: after a migration the same model with the same weights reads more steps of every padded sample.
set -euo pipefail
command -v python3.11 > /dev/null || { echo "this needs python3.11"; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TF_CPP_MIN_LOG_LEVEL=3 OMP_NUM_THREADS=1

cat > "$folder/count.py" <<'PY'
import sys

import numpy as np

if sys.argv[1] == "2.15":
    from tensorflow import keras
else:
    import keras
layers = keras.layers
first, second = np.array([[1, 1, 1, 0, 0, 0]]), np.array([[1, 1, 1, 1, 1, 0]])
expected = {"2.15": [3, 3], "3.15.1": [5, 6]}[sys.argv[1]]
for name in ("Add", "Multiply", "Concatenate"):
    counted = []
    for second_has_mask in (True, False):
        a, b = layers.Input((6,)), layers.Input((6,))
        left = layers.Embedding(2, 2, mask_zero=True)(a)
        right = layers.Embedding(2, 2, mask_zero=second_has_mask)(b)
        merged = getattr(layers, name)()([left, right])
        counter = layers.SimpleRNN(
            1, "linear", kernel_initializer="zeros", recurrent_initializer="ones", bias_initializer="ones"
        )
        model = keras.Model([a, b], counter(merged))
        counted.append(int(model.predict([first, second], verbose=0)[0, 0]))
    print(sys.argv[1], name, "both masked:", counted[0], " only the first masked:", counted[1], flush=True)
    if counted != expected:
        sys.exit(f"differs from the header: {expected}")
PY

python3.11 -m venv "$folder/old"
"$folder/old/bin/pip" install -q 'tensorflow-cpu==2.15.1'
"$folder/old/bin/python" "$folder/count.py" 2.15 2> "$folder/err" || { tail -3 "$folder/err"; exit 1; }
python3.11 -m venv "$folder/new"
"$folder/new/bin/pip" install -q 'keras==3.15.1' 'jax==0.10.2'
KERAS_BACKEND=jax "$folder/new/bin/python" "$folder/count.py" 3.15.1 2> "$folder/err" || { tail -3 "$folder/err"; exit 1; }
