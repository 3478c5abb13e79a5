#!/usr/bin/env bash
# The loss of a masked sequence (Embedding(mask_zero=True), LSTM(return_sequences=True), one output for each step).
#
# Expected: the mean over the steps that count, in every version; at least the loss "mse" and the metric "mse" agree.
# What happens: Keras 2.0.6 divides by the steps that count, Keras 2.3.1 by all steps (its own metric of the same name
#   divides by those that count), Keras 3 by those that count again. Gradients shrink and grow with the loss, so at one
#   learning rate, more padding means smaller steps in 2.3.1 and in no other of the three.
# Versions: keras 2.0.6 with tensorflow 1.2.1 (Python 3.6); keras 2.3.1 with tensorflow 1.15.5 (Python 3.7);
#   keras 3.15.1 with jax 0.10.2 (Python 3.11).
# Seen on 2026-11-28, every error 1, 4 of 12 steps count; the bias moves by 2 or 2/3 at learning rate 1:
#   2.0.6   loss 1.0000  metric 1.0000  gradient of the bias 2.0000
#   2.3.1   loss 0.3333  metric 1.0000  gradient of the bias 0.6667
#   3.15.1  loss 1.0000  metric 1.0000  gradient of the bias 2.0000
# Why it matters: losses and learning rates of published taggers cannot be compared across these versions.
set -euo pipefail
interpreter() {
    if "python$1" -c '' 2> /dev/null; then command -v "python$1"; return; fi
    local prefix
    prefix=$(pyenv prefix "$1" 2> /dev/null) || { echo "this needs python$1" >&2; return 2; }
    echo "$prefix/bin/python$1"
}
python36=$(interpreter 3.6)
python37=$(interpreter 3.7)
python311=$(interpreter 3.11)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TF_CPP_MIN_LOG_LEVEL=3 OMP_NUM_THREADS=1

cat > "$folder/loss.py" <<'PY'
import sys

import keras
import numpy as np

layers = keras.layers
version, expected_loss, expected_gradient = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
assert keras.__version__ == version
tokens = np.array([[1, 2, 3, 0, 0, 0], [1, 0, 0, 0, 0, 0]])
errors = np.zeros((2, 6, 1), "float32")
inputs = layers.Input((6,))
hidden = layers.LSTM(2, return_sequences=True)(layers.Embedding(5, 2, mask_zero=True)(inputs))
dense = layers.Dense(1, kernel_initializer="zeros", bias_initializer="ones")
model = keras.models.Model(inputs, layers.TimeDistributed(dense)(hidden))
sgd = keras.optimizers.SGD(1.0)
model.compile(sgd, "mse", metrics=["mse"])
loss, metric = model.evaluate(tokens, errors, batch_size=2, verbose=0)
model.train_on_batch(tokens, errors)
gradient = 1 - float(model.get_weights()[-1][0])
print("%-7s loss %.4f  metric %.4f  gradient of the bias %.4f" % (version, loss, metric, gradient))
for seen, expected in ((loss, expected_loss), (metric, 1.0), (gradient, expected_gradient)):
    if abs(seen - expected) > 1e-4:
        sys.exit("differs from the header: %s instead of %s" % (seen, expected))
PY

run() { "$@" 2> "$folder/err" || { tail -3 "$folder/err"; exit 1; }; }
"$python36" -m venv "$folder/a"
"$folder/a/bin/python" -m pip install -q 'pip==21.3.1'   # 3.6's own pip takes releases that need a newer Python
"$folder/a/bin/pip" install -q --disable-pip-version-check 'keras==2.0.6' 'tensorflow==1.2.1' 'numpy==1.16.6' \
    'protobuf==3.19.6' 'werkzeug==1.0.1' 'markdown==2.6.11' 'h5py==2.10.0' 'scipy==1.2.3' 'pyyaml==5.4.1' 'setuptools==59.6.0'
run "$folder/a/bin/python" "$folder/loss.py" 2.0.6 1 2
"$python37" -m venv "$folder/b"
"$folder/b/bin/pip" install -q --disable-pip-version-check 'keras==2.3.1' 'tensorflow==1.15.5' 'protobuf==3.20.3' 'h5py==2.10.0'
run "$folder/b/bin/python" "$folder/loss.py" 2.3.1 0.333333 0.666667
"$python311" -m venv "$folder/c"
"$folder/c/bin/pip" install -q 'keras==3.15.1' 'jax==0.10.2'
KERAS_BACKEND=jax run "$folder/c/bin/python" "$folder/loss.py" 3.15.1 1 2
