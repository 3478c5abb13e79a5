#!/usr/bin/env bash
# Two trainings from equal weights with Nadam in Keras 2.15, one compiled by fit, one with run_eagerly=True.
#
# Expected: they end at the same loss, as with Adam.
# What happens: after 24 steps the losses differ by 2 %. Nadam divides by 1 - u, where u is a product with one factor for each step.
#   In a compiled step u gets a factor for nearly each variable: that it is up to date is counted by a Python number, which changes
#   only while the step is traced. In Keras 3 and eagerly, u is what the definition of Nadam says. The variable u is also not among
#   optimizer.variables, so no checkpoint of the optimizer has it.
# Versions: tensorflow-cpu 2.15.1, keras 2.15.0, Python 3.11.
# Seen on 2026-11-30:
#   Adam:  eager 0.1243   compiled 0.1243
#   Nadam: eager 0.0583, u = 8.2e-06   compiled 0.0595, u = 7.6e-30   defined 8.2e-06
# Why it matters: a model that was tuned with Nadam learns otherwise after a migration to Keras 3, or in a debugger.
set -euo pipefail
command -v python3.11 > /dev/null || { echo "this needs python3.11"; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OMP_NUM_THREADS=1 TF_CPP_MIN_LOG_LEVEL=3 CUDA_VISIBLE_DEVICES=-1

cat > "$folder/nadam.py" <<'PY'
import sys

import numpy as np
from tensorflow import keras

x = np.random.RandomState(0).normal(size=(64, 4)).astype("float32")


def trained(name, eager):
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Dense(8, "tanh", input_shape=(4,)), keras.layers.Dense(8), keras.layers.Dense(1)]
    model = keras.Sequential(layers)
    optimizer = getattr(keras.optimizers, name)(0.01)
    model.compile(optimizer, "mse", run_eagerly=eager)
    loss = model.fit(x, x[:, :1], batch_size=8, epochs=3, shuffle=False, verbose=0).history["loss"][-1]
    return loss, float(getattr(optimizer, "_u_product", 0))


defined = np.prod([0.9 * (1 - 0.5 * 0.96**step) for step in range(1, 25)])
adam = [trained("Adam", eager)[0] for eager in (True, False)]
(loss, u), (other, wrong) = [trained("Nadam", eager) for eager in (True, False)]
print(f"Adam:  eager {adam[0]:.4f}   compiled {adam[1]:.4f}")
print(f"Nadam: eager {loss:.4f}, u = {u:.1e}   compiled {other:.4f}, u = {wrong:.1e}   defined {defined:.1e}")
right = abs(u / defined - 1) < 1e-3 and abs(adam[0] / adam[1] - 1) < 1e-4
if not (right and wrong < 1e-20 and abs(other / loss - 1) > 0.01):
    sys.exit("differs from the header")
PY

python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q 'tensorflow-cpu==2.15.1' 'keras==2.15.0' 'numpy<2' 2> /dev/null
"$folder/venv/bin/python" "$folder/nadam.py" 2> "$folder/log" || { tail -5 "$folder/log"; exit 1; }
