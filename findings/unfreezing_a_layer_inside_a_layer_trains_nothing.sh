#!/usr/bin/env bash
# Fine-tuning: an LSTM that was made with trainable=False inside a layer of one's own, unfrozen, then compiled and fitted.
#
# Expected: with trainable = True before compile, the LSTM is trained, as it is outside of the other layer.
# What happens: on TensorFlow it never moves. Keras lists its variables among the trainable ones and counts their parameters, but
#   TensorFlow's variables were made while the outer layer's call was traced and the LSTM was frozen, so that no tape watches
#   them. No warning that the gradients are missing. A Dense layer does the same. A layer with a build of its own that builds the
#   inner one is trained; on torch and jax all are.
# Versions: keras 3.15.1 with tensorflow 2.21.0, torch 2.13.0 and jax 0.10.2, Python 3.11.
# Seen on 2026-11-30 (largest change of a weight after one epoch; trainable variables):
#   tensorflow: alone 0.0564 (5), inside a layer 0 (5), built by it 0.0564 (5)
#   torch: alone 0.0265 (5), inside a layer 0.0265 (5), built by it 0.0265 (5)
#   jax: alone 0.0791 (5), inside a layer 0.0791 (5), built by it 0.0791 (5)
# Why it matters: the second stage of a fine-tuning trains the head alone, while summary() says that all is trained.
set -euo pipefail
command -v python3.11 > /dev/null || { echo "this needs python3.11"; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OMP_NUM_THREADS=1 TF_CPP_MIN_LOG_LEVEL=3

cat > "$folder/unfrozen.py" <<'PY'
import sys

import keras
import numpy as np
from keras import layers


class Around(layers.Layer):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def call(self, inputs):
        return self.inner(inputs)


class Builds(Around):
    def build(self, shape):
        self.inner.build(shape)


def moved(around):
    keras.utils.set_random_seed(0)
    lstm = layers.LSTM(4, trainable=False)
    model = keras.Sequential([layers.Input((6, 3)), around(lstm), layers.Dense(1)])
    lstm.trainable = True
    model.compile(keras.optimizers.SGD(0.1), "mse")
    before = lstm.get_weights()
    numbers = np.random.default_rng(0)
    model.fit(numbers.random((32, 6, 3)), numbers.random((32, 1)), verbose=0)
    change = max(float(np.abs(a - b).max()) for a, b in zip(before, lstm.get_weights()))
    return change, len(model.trainable_variables)


alone, inside, built = moved(lambda lstm: lstm), moved(Around), moved(Builds)
texts = [f"{change:.3g} ({count})" for change, count in (alone, inside, built)]
print("{}: alone {}, inside a layer {}, built by it {}".format(keras.backend.backend(), *texts))
moves = [change > 0.01 for change, _ in (alone, inside, built)]
is_tensorflow = keras.backend.backend() == "tensorflow"
if moves != [True, not is_tensorflow, True] or {alone[1], inside[1], built[1]} != {5}:
    sys.exit("differs from the header")
PY

python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q 'keras==3.15.1' 'tensorflow-cpu==2.21.0' 'torch==2.13.0' 'jax==0.10.2'
for backend in tensorflow torch jax; do
    KERAS_BACKEND=$backend "$folder/venv/bin/python" "$folder/unfrozen.py"
done
