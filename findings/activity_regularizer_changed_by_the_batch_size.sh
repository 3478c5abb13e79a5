#!/usr/bin/env bash
# activity_regularizer of an LSTM in Keras 3.13, Keras 3.14 and Keras 2.15, with and without return_state.
#
# Expected: one strength within Keras 3; and return_state=True, which only hands out what is there anyway, changes no loss.
# What happens: Keras 2.15 divides the penalty by the batch size, Keras 3.0 to 3.13 do not, Keras 3.14 and later do again: an
#   update from 3.13 to 3.14 weakens the same coefficient by a factor of the batch size. And in all of them
#   return_state=True also penalizes the states h and c, although the model uses the sequence output only.
# Versions: tensorflow-cpu 2.15.1 (Keras 2.15); keras 3.13.0, 3.14.0 and 3.15.1 with jax 0.10.2. Python 3.11.
# Seen on 2026-11-28: loss as a multiple of the penalty of one sample's output:
#           batch 1   batch 4   return_state, batch 1
#   2.15    1.00      1.00      8.49
#   3.13.0  1.00      4.00      8.49
#   3.14.0  1.00      1.00      8.49
#   3.15.1  1.00      1.00      8.49
# Why it matters: a tuned coefficient means something else after a minor update, and after return_state=True.
set -euo pipefail
command -v python3.11 > /dev/null || { echo "this needs python3.11"; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TF_CPP_MIN_LOG_LEVEL=3 OMP_NUM_THREADS=1

cat > "$folder/loss.py" <<'PY'
import sys

import numpy as np

version, of_four = sys.argv[1], float(sys.argv[2])
if version == "2.15":
    from tensorflow import keras
else:
    import keras

    assert keras.__version__ == version
layers = keras.layers


def loss_of(batch, return_state):
    inputs = layers.Input((6, 2))
    layer = layers.LSTM(
        2,
        return_state=return_state,
        activity_regularizer=keras.regularizers.L2(1.0),
        kernel_initializer="zeros",
        recurrent_initializer="zeros",
        bias_initializer="ones",
        unit_forget_bias=False,
    )
    outputs = layer(inputs)
    model = keras.Model(inputs, outputs[0] if return_state else outputs)
    model.compile("sgd", "mse")
    x = np.zeros((batch, 6, 2), "float32")
    y = model.predict(x, verbose=0)
    return float(model.evaluate(x, y, batch_size=batch, verbose=0) / np.sum(y[0] ** 2))


seen = [loss_of(1, False), loss_of(4, False), loss_of(1, True)]
print("%-7s" % version, "   ".join("%.2f" % value for value in seen), flush=True)
# With h = o tanh(c): (2 h^2 + c^2) / h^2 of this layer is 8.49.
if not np.allclose(seen, [1, of_four, 8.49], atol=0.01):
    sys.exit("differs from the header")
PY

run() { "$@" 2> "$folder/err" || { tail -3 "$folder/err"; exit 1; }; }
python3.11 -m venv "$folder/tf"
"$folder/tf/bin/pip" install -q 'tensorflow-cpu==2.15.1'
run "$folder/tf/bin/python" "$folder/loss.py" 2.15 1
python3.11 -m venv "$folder/keras"
"$folder/keras/bin/pip" install -q 'jax==0.10.2' 'keras==3.13.0'
export KERAS_BACKEND=jax
run "$folder/keras/bin/python" "$folder/loss.py" 3.13.0 4
"$folder/keras/bin/pip" install -q 'keras==3.14.0'
run "$folder/keras/bin/python" "$folder/loss.py" 3.14.0 1
"$folder/keras/bin/pip" install -q 'keras==3.15.1'
run "$folder/keras/bin/python" "$folder/loss.py" 3.15.1 1
