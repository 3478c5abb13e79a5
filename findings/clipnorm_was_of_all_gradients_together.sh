#!/usr/bin/env bash
# SGD(clipnorm=1) with the gradients 60 (kernel) and 20 (bias).
#
# Expected: one meaning of clipnorm since it exists.
# What happens: Keras 2.0.6 to 2.3.1 scale all gradients by their common norm (0.949 and 0.316: the direction stays). tf.keras, in
#   the same TensorFlow 1.15, and Keras 3 clip each variable on its own (1 and 1: another direction, and as many norms of 1 as
#   there are variables). What was clipnorm is called global_clipnorm now.
# Versions: keras 2.3.1 and tf.keras with tensorflow 1.15.5 (Python 3.7); keras 3.15.1 with jax 0.10.2 (Python 3.11). 2.0.6 with
#   tensorflow 1.2.1 was run once by hand, with 0.949 and 0.316.
# Seen on 2026-11-28: the step of kernel and bias at learning rate 1
#   keras 2.3.1               clipnorm 0.949 0.316
#   tf.keras 1.15             clipnorm 1.000 1.000
#   keras 3.15.1              clipnorm 1.000 1.000   global_clipnorm 0.949 0.316
# Why it matters: recurrent networks are trained with it; the same setting takes other steps, whose common norm grows with the
#   root of the number of variables.
set -euo pipefail
interpreter() {
    if "python$1" -c '' 2> /dev/null; then command -v "python$1"; return; fi
    local prefix
    prefix=$(pyenv prefix "$1" 2> /dev/null) || { echo "this needs python$1" >&2; return 2; }
    echo "$prefix/bin/python$1"
}
python37=$(interpreter 3.7)
python311=$(interpreter 3.11)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TF_CPP_MIN_LOG_LEVEL=3 OMP_NUM_THREADS=1

cat > "$folder/clip.py" <<'PY'
import sys

import numpy as np

version, key, common = sys.argv[1:]
if version == "tf.keras":
    from tensorflow import keras
else:
    import keras

    assert keras.__version__ == version
inputs = keras.layers.Input((1,))
model = keras.models.Model(inputs, keras.layers.Dense(1, kernel_initializer="zeros")(inputs))
model.compile(keras.optimizers.SGD(1.0, **{key: 1.0}), "mse")
model.train_on_batch(np.array([[3.0]]), np.array([[10.0]]))
step = [float(value.ravel()[0]) for value in model.get_weights()]
print("%-9s %-15s %.3f %.3f" % (version, key, step[0], step[1]))
expected = [0.9487, 0.3162] if common == "common" else [1.0, 1.0]
if not np.allclose(step, expected, atol=1e-3):
    sys.exit("differs from the header")
PY

run() { "$@" 2> "$folder/err" || { tail -3 "$folder/err"; exit 1; }; }
"$python37" -m venv "$folder/old"
"$folder/old/bin/pip" install -q --disable-pip-version-check 'keras==2.3.1' 'tensorflow==1.15.5' 'protobuf==3.20.3' 'h5py==2.10.0'
run "$folder/old/bin/python" "$folder/clip.py" 2.3.1 clipnorm common
run "$folder/old/bin/python" "$folder/clip.py" tf.keras clipnorm each
"$python311" -m venv "$folder/new"
"$folder/new/bin/pip" install -q 'keras==3.15.1' 'jax==0.10.2'
export KERAS_BACKEND=jax
run "$folder/new/bin/python" "$folder/clip.py" 3.15.1 clipnorm each
run "$folder/new/bin/python" "$folder/clip.py" 3.15.1 global_clipnorm common
