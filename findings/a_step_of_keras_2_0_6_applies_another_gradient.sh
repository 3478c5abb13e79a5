#!/usr/bin/env bash
# Steps of SGD with learning rate 1 of a GRU and of a perceptron, whose weights should move by minus the gradient.
#
# Expected: equal to the gradient that the same session computes just before, up to rounding, in every release.
# What happens: with Keras 2.0.6 on TensorFlow 1.2, on one thread, none of ten is. Variables are references there, and nothing keeps the
#   update of one of them from running before the gradient of another has read the old value. With Keras 2.3.1 on TensorFlow 1.15
#   every step is right.
# Versions: keras 2.0.6 with tensorflow 1.2.1 (Python 3.6); keras 2.3.1 with tensorflow 1.15.5 (Python 3.7).
# Seen on 2026-11-29: steps of 10 that are off by more than 1 % of the largest gradient, and the largest error
#   2.0.6   GRU 10 (10 %)   perceptron 10 (900 %)
#   2.3.1   GRU 0 (2e-6)    perceptron 0 (2e-7)
# Why it matters: accuracies published with these releases come from other steps than the code says, and later ones do not repeat them.
set -euo pipefail
interpreter() {
    if "python$1" -c '' 2> /dev/null; then command -v "python$1"; return; fi
    local prefix
    prefix=$(pyenv prefix "$1" 2> /dev/null) || { echo "this needs python$1" >&2; return 2; }
    echo "$prefix/bin/python$1"
}
python36=$(interpreter 3.6)
python37=$(interpreter 3.7)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TF_CPP_MIN_LOG_LEVEL=3 OMP_NUM_THREADS=1 CUDA_VISIBLE_DEVICES=

cat > "$folder/steps.py" <<'PY'
import sys

import keras
import numpy as np
import tensorflow as tf

version = sys.argv[1]
assert keras.__version__ == version
layers, STEPS = keras.layers, 10
settings = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
keras.backend.set_session(tf.Session(config=settings))
stream = np.random.RandomState(0)


def gru():
    inputs = layers.Input((8, 8))
    return inputs, layers.GRU(64)(inputs)


def perceptron():
    inputs = hidden = layers.Input((784,))
    for _ in range(2):
        hidden = layers.Dense(512, activation="relu")(hidden)
    return inputs, hidden


wrong = False
for make in (gru, perceptron):
    np.random.seed(0)
    tf.set_random_seed(0)
    inputs, hidden = make()
    model = keras.models.Model(inputs, layers.Dense(10, activation="softmax")(hidden))
    model.compile(keras.optimizers.SGD(lr=1.0), "sparse_categorical_crossentropy")
    gradients = keras.backend.gradients(model.total_loss, model.trainable_weights)
    session, before = keras.backend.get_session(), model.get_weights()
    errors = []
    for _ in range(STEPS):
        x = stream.rand(64, *keras.backend.int_shape(inputs)[1:]).astype("float32")
        y = stream.randint(0, 10, (64, 1))
        model.set_weights(before)
        feed = {model.inputs[0]: x, model.targets[0]: y, model.sample_weights[0]: np.ones(64)}
        expected = session.run(gradients, feed_dict=feed)
        model.train_on_batch(x, y)
        error = 0.0
        for old, new, gradient in zip(before, model.get_weights(), expected):
            off = np.abs(old - new - gradient).max() / np.abs(gradient).max()
            error = max(error, float(off))
        errors.append(error)
    count = sum(error > 0.01 for error in errors)
    print("%-6s %-10s %2d of %d, %.0e" % (version, make.__name__, count, STEPS, max(errors)))
    right = max(errors) < 1e-3 if version == "2.3.1" else count > STEPS / 2
    wrong = wrong or not right
if wrong:
    sys.exit("differs from the header")
PY

run() { "$@" 2> "$folder/err" || { tail -3 "$folder/err"; exit 1; }; }
"$python36" -m venv "$folder/a"
"$folder/a/bin/python" -m pip install -q 'pip==21.3.1'   # 3.6's own pip takes releases that need a newer Python
"$folder/a/bin/pip" install -q --disable-pip-version-check 'keras==2.0.6' 'tensorflow==1.2.1' 'numpy==1.16.6' \
    'protobuf==3.19.6' 'werkzeug==1.0.1' 'markdown==2.6.11' 'h5py==2.10.0' 'scipy==1.2.3' 'pyyaml==5.4.1' 'setuptools==59.6.0'
run "$folder/a/bin/python" "$folder/steps.py" 2.0.6
"$python37" -m venv "$folder/b"
"$folder/b/bin/pip" install -q --disable-pip-version-check 'keras==2.3.1' 'tensorflow==1.15.5' 'protobuf==3.20.3' 'h5py==2.10.0'
run "$folder/b/bin/python" "$folder/steps.py" 2.3.1
