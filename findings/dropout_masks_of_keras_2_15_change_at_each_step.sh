#!/usr/bin/env bash
# LSTM(dropout=0.5) and LSTM(recurrent_dropout=0.5) over ten steps: how many different masks does one sequence meet?
#
# Expected: one, in every version: the layer's documentation cites the method that keeps the mask over the steps.
# What happens: one in Keras 2.3.1 and in Keras 3.15, and in Keras 2.15 if the layer is called eagerly. In a graph, which fit() uses, the
#   LSTM of Keras 2.15 draws its masks in the body of the loop, a new one for each step: with recurrent_dropout, a unit's memory
#   survives ten steps with a chance of 1 in 512 instead of 1 in 2.
# Versions: keras 2.3.1 with tensorflow 1.15.5 (Python 3.7); tensorflow-cpu 2.15.1 (Keras 2.15); keras 3.15.1 with jax 0.10.2 (Python 3.11).
# Seen on 2026-11-29: an LSTM that only adds; masks of 10 steps, units of 256 that remember the first step after 2 and after 10 steps
#   2.3.1 graph     1 mask,   about half, the same half
#   2.15 eager      1 mask,   about half, the same half
#   2.15 graph      10 masks, about half, 0 or 1
#   3.15.1          1 mask,   about half, the same half
# Why it matters: the same rate is a far stronger noise in 2.15, so a tuned rate does not move to or from it.
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

cat > "$folder/masks.py" <<'PY'
import sys

import numpy as np

version = sys.argv[1]
if version == "2.15":
    import tensorflow as tf
    from tensorflow import keras
else:
    import keras

    assert keras.__version__ == version
STEPS, UNITS = 10, 256


def adder(**dropout):
    """A model with an LSTM whose gates are 1, 0 and 1: output = input + previous output."""
    inputs = keras.layers.Input((STEPS, UNITS))
    layer = keras.layers.LSTM(
        UNITS, activation="linear", recurrent_activation="linear", return_sequences=True, **dropout
    )
    model = keras.models.Model(inputs, layer(inputs))
    kernel, recurrent, bias = np.zeros((UNITS, 4, UNITS)), np.zeros((UNITS, 4, UNITS)), np.zeros((4, UNITS))
    kernel[:, 2] = np.eye(UNITS)
    if "recurrent_dropout" in dropout:
        recurrent[:, 2] = np.eye(UNITS)
    bias[[0, 3]] = 1
    layer.set_weights([kernel.reshape(UNITS, -1), recurrent.reshape(UNITS, -1), bias.ravel()])
    return model


def calls():
    """How a model is called while training, by name."""
    if version == "2.3.1":

        def graph(model, x):
            phase = keras.backend.learning_phase()
            return keras.backend.function([model.input, phase], [model.output])([x, 1])[0]

        return {"graph": graph}

    def eager(model, x):
        return model(x, training=True)

    if version == "2.15":
        return {"eager": eager, "graph": tf.function(eager)}
    return {"eager": eager}


for name, call in calls().items():
    ones = np.ones((1, STEPS, UNITS), "float32")
    first = ones * (np.arange(STEPS) == 0)[:, None]
    of_inputs = np.asarray(call(adder(dropout=0.5), ones))[0] != 0
    remembered = np.asarray(call(adder(recurrent_dropout=0.5), first.astype("float32")))[0] != 0
    masks = len({step.tobytes() for step in of_inputs})
    second, last = int(remembered[1].sum()), int(remembered[-1].sum())
    print("%-6s %-5s masks %2d  remembered %3d %3d" % (version, name, masks, second, last), flush=True)
    each_step = version == "2.15" and name == "graph"
    if masks != (STEPS if each_step else 1) or not 90 < second < 166:
        sys.exit("differs from the header")
    if not (last < 10 if each_step else last == second):
        sys.exit("differs from the header")
PY

run() { "$@" 2> "$folder/err" || { tail -3 "$folder/err"; exit 1; }; }
"$python37" -m venv "$folder/old"
"$folder/old/bin/pip" install -q --disable-pip-version-check 'keras==2.3.1' 'tensorflow==1.15.5' 'protobuf==3.20.3' 'h5py==2.10.0'
run "$folder/old/bin/python" "$folder/masks.py" 2.3.1
"$python311" -m venv "$folder/middle"
"$folder/middle/bin/pip" install -q 'tensorflow-cpu==2.15.1'
run "$folder/middle/bin/python" "$folder/masks.py" 2.15
"$python311" -m venv "$folder/new"
"$folder/new/bin/pip" install -q 'keras==3.15.1' 'jax==0.10.2'
KERAS_BACKEND=jax run "$folder/new/bin/python" "$folder/masks.py" 3.15.1
