#!/usr/bin/env bash
# Sequences with a target at each step, and one weight per sample: fit(x, y, sample_weight=w) with w of shape (samples,).
#
# Expected: the loss of a sample's steps is multiplied by the sample's weight, as in Keras 2.15; or Keras refuses the shape.
# What happens: Keras 3 multiplies the losses (samples, steps) by the weights (samples,) as NumPy would: along the steps. A batch as
#   long as its sequences is trained with the weight of sample i on step i, without a word; any other batch raises. A weighted metric
#   of the same call goes by sample.
# Versions: tensorflow-cpu 2.15.1 (Keras 2.15); keras 3.15.1 with jax 0.10.2 (torch and TensorFlow do the same). Python 3.11.
# Seen on 2026-11-29: squared errors 1, 2, 3, ... 36 of 6 samples of 6 steps, sample 0 has the weight 10 and the others 1;
#   loss, weighted metric, and a batch of 4 samples
#   2.15    23.8  9.5   runs
#   3.15.1  42.5  9.5   ValueError      (by sample: 23.75; by step: 42.5)
# Why it matters: who weighs rare sequences, with batch 32 and length 32, weighs the first steps of all. Write weights (samples, steps).
set -euo pipefail
command -v python3.11 > /dev/null || { echo "this needs python3.11"; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TF_CPP_MIN_LOG_LEVEL=3 OMP_NUM_THREADS=1

cat > "$folder/weigh.py" <<'PY'
import sys

import numpy as np

if sys.argv[1] == "2.15":
    from tensorflow import keras
else:
    import keras
SAMPLES = STEPS = 6
errors = np.arange(1, SAMPLES * STEPS + 1).reshape(SAMPLES, STEPS)
x = np.zeros((SAMPLES, STEPS, 1), "float32")
y = np.sqrt(errors)[..., None].astype("float32")
weights = np.array([10, 1, 1, 1, 1, 1], "float32")
by_sample = float((errors * weights[:, None]).mean())
by_step = float((errors * weights).mean())

layer = keras.layers.SimpleRNN(1, return_sequences=True, use_bias=False)  # its outputs are 0
model = keras.Sequential([keras.layers.Input((STEPS, 1)), layer])
model.compile("sgd", "mse", weighted_metrics=["mse"])
loss, metric = model.evaluate(x, y, sample_weight=weights, batch_size=SAMPLES, verbose=0)
try:
    model.evaluate(x[:4], y[:4], sample_weight=weights[:4], batch_size=4, verbose=0)
    of_four = "runs"
except ValueError:
    of_four = "ValueError"
print(sys.argv[1], f"loss {loss:.2f}, metric {metric:.2f}, batch of 4: {of_four}", flush=True)
print(f"  by sample {by_sample:.2f}, by step {by_step:.2f}", flush=True)
expected = {"2.15": (by_sample, "runs"), "3.15.1": (by_step, "ValueError")}[sys.argv[1]]
of_metric = by_sample * SAMPLES / weights.sum()
if abs(loss - expected[0]) > 1e-3 or of_four != expected[1] or abs(metric - of_metric) > 1e-3:
    sys.exit(f"differs from the header: {expected}")
PY

python3.11 -m venv "$folder/old"
"$folder/old/bin/pip" install -q 'tensorflow-cpu==2.15.1'
"$folder/old/bin/python" "$folder/weigh.py" 2.15 2> "$folder/err" || { tail -3 "$folder/err"; exit 1; }
python3.11 -m venv "$folder/new"
"$folder/new/bin/pip" install -q 'keras==3.15.1' 'jax==0.10.2'
KERAS_BACKEND=jax "$folder/new/bin/python" "$folder/weigh.py" 3.15.1 2> "$folder/err" || { tail -3 "$folder/err"; exit 1; }
