#!/usr/bin/env bash
# One step of SGD of a model with the dtype policy float64, against the same step calculated by hand.
#
# Expected: right to 1e-15: weights, outputs and optimizer of the model are float64.
# What happens: in Keras 3 a loss has a dtype of its own, that of floatx(), and casts the outputs to float32: the loss and every gradient
#   are off by 1e-8, in arrays that say float64. Only set_floatx("float64") makes it right to 1e-15. Keras 2.15 is right with the policy
#   alone.
# Versions: tensorflow-cpu 2.15.1 (Keras 2.15); keras 3.15.1 with tensorflow-cpu 2.21.0. Python 3.11.
# Seen on 2026-11-29: relative error of the loss and of the step
#   2.15, policy    0      2e-16
#   3.15.1, policy  6e-08  3e-08
#   3.15.1, floatx  0      2e-16
# Why it matters: a float64 model is made to check gradients or to compare implementations below float32, and it cannot.
set -euo pipefail
command -v python3.11 > /dev/null || { echo "this needs python3.11"; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TF_CPP_MIN_LOG_LEVEL=3 OMP_NUM_THREADS=1 CUDA_VISIBLE_DEVICES=

cat > "$folder/step.py" <<'PY'
import sys

import numpy as np

version, way = sys.argv[1:]
if version == "2.15":
    from tensorflow import keras
else:
    import keras

    assert keras.__version__ == version
if way == "floatx":
    keras.backend.set_floatx("float64")
elif version == "2.15":
    keras.mixed_precision.set_global_policy("float64")
else:
    keras.config.set_dtype_policy("float64")
X, Y, WEIGHT = 0.4375, 0.75, 1 / 3  # float32 holds the first two exactly, not the third
inputs = keras.layers.Input((1,))
model = keras.Model(inputs, keras.layers.Dense(1, use_bias=False)(inputs))
model.compile(keras.optimizers.SGD(1.0), "mse")
model.set_weights([np.array([[WEIGHT]])])
loss = float(model.train_on_batch(np.array([[X]]), np.array([[Y]])))
(after,) = model.get_weights()
assert after.dtype == "float64"
residual = X * WEIGHT - Y
errors = [abs(loss / residual**2 - 1), abs((WEIGHT - after[0, 0]) / (2 * residual * X) - 1)]
print("%-7s %-7s loss %.0e step %.0e" % (version, way, *errors), flush=True)
single = version != "2.15" and way == "policy"
if not all(1e-9 < error < 1e-6 if single else error < 1e-14 for error in errors):
    sys.exit("differs from the header")
PY

run() { "$@" 2> "$folder/err" || { tail -3 "$folder/err"; exit 1; }; }
python3.11 -m venv "$folder/old"
"$folder/old/bin/pip" install -q 'tensorflow-cpu==2.15.1'
run "$folder/old/bin/python" "$folder/step.py" 2.15 policy
python3.11 -m venv "$folder/new"
"$folder/new/bin/pip" install -q 'keras==3.15.1' 'tensorflow-cpu==2.21.0'
export KERAS_BACKEND=tensorflow
run "$folder/new/bin/python" "$folder/step.py" 3.15.1 policy
run "$folder/new/bin/python" "$folder/step.py" 3.15.1 floatx
