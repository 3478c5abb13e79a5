#!/usr/bin/env bash
# A model with a stateful SimpleRNN that counts its steps, three steps at a time, on jax and on TensorFlow: predict, fit, evaluate, a call.
#
# Expected: the second batch goes on where the first ended: 3, 6.
# What happens: on TensorFlow it does. On jax, predict, predict_on_batch, fit, train_on_batch and evaluate begin each batch from zero
#   states, without an error or a warning; the layer's stateful is True, and its states are 0 afterwards. Only a direct call, model(x),
#   keeps them.
# Versions: keras 3.15.1, jax 0.10.2, tensorflow-cpu 2.21.0. Python 3.11.
# Seen on 2026-11-29: two batches of three steps each; what is kept afterwards
#               predict  predict_on_batch  fit, evaluate, train_on_batch (from their losses)  model(x)
#   jax         3 3, 0   3 3, 0            3 3, 0                                             3 6, 6
#   tensorflow  3 6, 6   3 6, 6            3 6, 6                                             3 6, 6
# Why it matters: a stream that is served with predict is answered chunk by chunk as if each were the first, and truncated
#   backpropagation with fit trains another model; a test that calls the model sees nothing of it.
set -euo pipefail
command -v python3.11 > /dev/null || { echo "this needs python3.11"; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TF_CPP_MIN_LOG_LEVEL=3 OMP_NUM_THREADS=1 CUDA_VISIBLE_DEVICES=-1 JAX_PLATFORMS=cpu

cat > "$folder/count.py" <<'PY'
import sys

import keras
import numpy as np


def counter():
    inputs = keras.Input(batch_shape=(1, 3, 1))
    layer = keras.layers.SimpleRNN(
        1,
        "linear",
        stateful=True,
        kernel_initializer="zeros",
        recurrent_initializer="ones",
        bias_initializer="ones",
    )
    model = keras.Model(inputs, layer(inputs))
    model.compile(keras.optimizers.SGD(0.0), "mse")
    return model


x, y = np.zeros((1, 3, 1), "float32"), np.zeros((1, 1), "float32")
xs, ys = np.zeros((2, 3, 1), "float32"), np.zeros((2, 1), "float32")


def root(loss):
    """The count of one batch, whose loss is the square of it."""
    return float(loss) ** 0.5


def second(mean):
    """The counts of two batches, from the mean of their losses, if the first is 3."""
    return [3.0, (2 * float(mean) - 9) ** 0.5]


ways = {
    "predict": lambda m: m.predict(xs, batch_size=1, verbose=0),
    "predict_on_batch": lambda m: [m.predict_on_batch(x), m.predict_on_batch(x)],
    "train_on_batch": lambda m: [root(m.train_on_batch(x, y)), root(m.train_on_batch(x, y))],
    "fit": lambda m: second(m.fit(xs, ys, batch_size=1, shuffle=False, verbose=0).history["loss"][0]),
    "evaluate": lambda m: second(m.evaluate(xs, ys, batch_size=1, verbose=0)),
    "model(x)": lambda m: [m(x), m(x)],
}
backend, wrong = keras.backend.backend(), []
for name, way in ways.items():
    model = counter()
    counts = [round(float(np.asarray(count).ravel()[0])) for count in way(model)]
    (state,) = model.layers[-1].states
    kept = round(float(np.asarray(state).ravel()[0]))
    print(f"{backend} {name}: {counts}, kept {kept}", flush=True)
    forgets = backend == "jax" and name != "model(x)"
    if (counts, kept) != (([3, 3], 0) if forgets else ([3, 6], 6)):
        wrong.append(name)
if wrong:
    sys.exit(f"differs from the header: {wrong}")
PY

python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q 'keras==3.15.1' 'jax==0.10.2' 'tensorflow-cpu==2.21.0'
for backend in jax tensorflow; do
    KERAS_BACKEND=$backend "$folder/venv/bin/python" "$folder/count.py" 2> "$folder/err" || { tail -3 "$folder/err"; exit 1; }
done
