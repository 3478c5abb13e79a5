#!/usr/bin/env bash
# fit(x, y, batch_size=32) of a Keras LSTM on TensorFlow, with 64 samples and with 60, from arrays, a tf.data pipeline, a generator.
#
# Expected: the layers see the shape (None, …) in each of them, or (32, …) wherever batch_size=32 was asked.
# What happens: arrays whose number is a multiple of the batch size give the static shape 32. One sample more, a pipeline with
#   .batch(32), a generator or a PyDataset give None, even if every batch has 32 samples. `predict` decides batch by batch: the first
#   whole one is static, the last one is traced again with None; a set smaller than a batch is static there, and not in `fit`.
# Versions: keras 3.15.1 with tensorflow-cpu 2.21.0, Python 3.11.
# Seen on 2026-11-29:
#   fit 64: [32]   fit 60: [None]   fit 20: [None]   predict 60: [32, None]   predict 20: [20]   evaluate 60: [None]
#   .batch(32): [None]   .batch(32, drop_remainder=True): [32]   generator: [None]   PyDataset: [None]   tensors: [32]
# Why it matters: two timings of "the same" model differ by the way its samples come. A step of Bidirectional(LSTM(32)) and LSTM(32) over
#   60 time steps takes 17 ms with the static size and 22.5 ms without (batch 32, one thread of an Intel Xeon, family 6, model 167,
#   2026-11-29). Drop the last samples, or write drop_remainder=True.
set -euo pipefail
command -v python3.11 > /dev/null || { echo "this needs python3.11"; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OMP_NUM_THREADS=1 KERAS_BACKEND=tensorflow TF_CPP_MIN_LOG_LEVEL=3 CUDA_VISIBLE_DEVICES=-1

cat > "$folder/sizes.py" <<'PY'
import sys

import keras
import numpy as np
import tensorflow as tf

seen = []


class Seen(keras.layers.Layer):
    def call(self, inputs):
        seen.append(inputs.shape[0])
        return inputs


def sizes(use):
    """The sizes of batches with which a new model was traced, in order."""
    parts = [keras.Input((5, 3)), Seen(), keras.layers.LSTM(4), keras.layers.Dense(1)]
    model = keras.Sequential(parts)
    model.compile("sgd", "mse", jit_compile=False)
    seen.clear()
    use(model)
    return list(seen)


def arrays(samples):
    return np.zeros((samples, 5, 3), "float32"), np.zeros((samples, 1), "float32")


class Batches(keras.utils.PyDataset):
    def __len__(self):
        return 2

    def __getitem__(self, index):
        return arrays(32)


def generator():
    while True:
        yield arrays(32)


found = {}
for samples in (64, 60, 20):
    x, y = arrays(samples)
    found[f"fit {samples}"] = sizes(lambda m: m.fit(x, y, batch_size=32, epochs=2, verbose=0))
    found[f"evaluate {samples}"] = sizes(lambda m: m.evaluate(x, y, batch_size=32, verbose=0))
    found[f"predict {samples}"] = sizes(lambda m: m.predict(x, batch_size=32, verbose=0))
x, y = arrays(64)
every = tf.data.Dataset.from_tensor_slices((x, y))
found["tensors"] = sizes(lambda m: m.fit(tf.constant(x), tf.constant(y), batch_size=32, verbose=0))
found[".batch(32)"] = sizes(lambda m: m.fit(every.batch(32), verbose=0))
whole = every.batch(32, drop_remainder=True)
found[".batch(32, drop_remainder=True)"] = sizes(lambda m: m.fit(whole, verbose=0))
found["generator"] = sizes(lambda m: m.fit(generator(), steps_per_epoch=2, verbose=0))
found["PyDataset"] = sizes(lambda m: m.fit(Batches(), verbose=0))
for name, value in found.items():
    print(f"{name}: {value}")
expected = {
    "fit 64": [32], "evaluate 64": [32], "predict 64": [32],
    "fit 60": [None], "evaluate 60": [None], "predict 60": [32, None],
    "fit 20": [None], "evaluate 20": [None], "predict 20": [20],
    "tensors": [32], ".batch(32)": [None], ".batch(32, drop_remainder=True)": [32],
    "generator": [None], "PyDataset": [None],
}
if found != expected:
    sys.exit("differs from the header")
PY

python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q 'keras==3.15.1' 'tensorflow-cpu==2.21.0'
"$folder/venv/bin/python" "$folder/sizes.py" 2> "$folder/log" || { tail -5 "$folder/log"; exit 1; }
