#!/usr/bin/env bash
# The gradient of an LSTM's last output by its inputs, over 600 steps in float32: how far back is it not zero?
#
# Expected: the same number of steps in every framework; float32 is float32.
# What happens: it fades by 0.79 a step here. TensorFlow and jax flush numbers below 1.2e-38 to zero, torch calculates with them down to
#   1.4e-45: the same Keras layer with the same weights has a gradient over 70 steps more on torch. Beyond, it is exactly 0 everywhere
#   (in float64 it is not, at any of the 600 steps).
# Versions: keras 3.15.1, tensorflow-cpu 2.21.0, jax 0.10.2, torch 2.13.0 (its CPU build is enough). Python 3.11, x86-64.
# Seen on 2026-11-29: farthest step back with a gradient: TensorFlow 364 (1.2e-38), jax 363 (1.2e-38), torch 437 (1.4e-45),
#   torch in float64 599, the first step (6e-64).
# Why it matters: "has a gradient or not" is a matter of the framework in long sequences, and torch pays for these numbers with slow
#   arithmetic (torch.set_flush_denormal).
set -euo pipefail
command -v python3.11 > /dev/null || { echo "this needs python3.11"; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TF_CPP_MIN_LOG_LEVEL=3 OMP_NUM_THREADS=1 CUDA_VISIBLE_DEVICES=

cat > "$folder/reach.py" <<'PY'
import sys

import keras
import numpy as np

backend, steps, units = keras.backend.backend(), 600, 16
dtype = sys.argv[1]
x = np.random.default_rng(0).normal(size=(1, steps, units)).astype(dtype)
layer = keras.layers.LSTM(units, dtype=dtype)
layer.build(x.shape)
weights = np.random.default_rng(1)
for variable in layer.trainable_variables:
    if len(variable.shape) == 2:
        variable.assign(weights.uniform(-0.2, 0.2, size=variable.shape).astype(dtype))
if backend == "tensorflow":
    import tensorflow as tf

    inputs = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        total = tf.reduce_sum(layer(inputs))
    gradient = tape.gradient(total, inputs).numpy()
elif backend == "jax":
    import jax

    gradient = np.asarray(jax.grad(lambda inputs: layer(inputs).sum())(x))
else:
    import torch

    inputs = torch.tensor(x, requires_grad=True)
    layer(inputs).sum().backward()
    gradient = inputs.grad.numpy()
sizes = np.abs(gradient[0]).max(1)[::-1]  # by steps back from the end
reach = int(np.nonzero(sizes)[0].max())
smallest = float(np.abs(gradient[gradient != 0]).astype("float64").min())
print(backend, dtype, "farthest step back", reach, "smallest gradient", smallest, flush=True)
flushes = dtype == "float32" and smallest >= np.finfo("float32").tiny
if dtype == "float64":
    expected = (599, False)
else:
    expected = (437, False) if backend == "torch" else (364, True)
if flushes != expected[1] or abs(reach - expected[0]) > 5:
    sys.exit("differs from the header")
PY

python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q 'keras==3.15.1' 'tensorflow-cpu==2.21.0' 'torch==2.13.0' 'jax==0.10.2'
for run in tensorflow:float32 jax:float32 torch:float32 torch:float64; do
    KERAS_BACKEND=${run%:*} "$folder/venv/bin/python" "$folder/reach.py" "${run#*:}" 2> "$folder/err" || { tail -3 "$folder/err"; exit 1; }
done
