#!/usr/bin/env bash
# RNN([LSTMCell, GRUCell], stateful=True): states are kept between calls; reset_state() should set them to zero.
#
# Expected: reset_state() works, as it did in Keras 2.15 (reset_states()), where the next call repeats the first.
# What happens: the layer keeps its states in Keras 3.15 as well, but reset_state() raises AttributeError ("... object has no attribute
#   'assign'") for every list of cells, so nothing but a new layer forgets them. With one cell that is not in a list it works.
# Versions: tensorflow-cpu 2.15.1 (Keras 2.15); keras 3.15.1 with jax 0.10.2. Python 3.11.
# Seen on 2026-11-28 (the first and second call differ everywhere):
#   2.15    LSTMCell resets, [LSTMCell, GRUCell] resets
#   3.15.1  LSTMCell resets, [LSTMCell, GRUCell] AttributeError
# Why it matters: the usual loop over epochs with a reset between them ends here, and without it each epoch starts in the last
#   state of the one before.
set -euo pipefail
command -v python3.11 > /dev/null || { echo "this needs python3.11"; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TF_CPP_MIN_LOG_LEVEL=3 OMP_NUM_THREADS=1

cat > "$folder/reset.py" <<'PY'
import sys

import numpy as np

old = sys.argv[1] == "2.15"
if old:
    from tensorflow import keras
else:
    import keras
layers = keras.layers
x = np.random.default_rng(0).normal(size=(2, 6, 3)).astype("float32")
outcomes = []
for name, cells in (
    ("LSTMCell", layers.LSTMCell(4)),
    ("[LSTMCell, GRUCell]", [layers.LSTMCell(4), layers.GRUCell(5)]),
):
    layer = layers.RNN(cells, stateful=True)
    first, second = np.asarray(layer(x)), np.asarray(layer(x))
    if np.abs(first - second).max() < 1e-3:
        sys.exit("differs from the header: no state is kept")
    try:
        layer.reset_states() if old else layer.reset_state()
        outcome = "resets" if np.allclose(np.asarray(layer(x)), first, atol=1e-6) else "is not reset"
    except AttributeError as error:
        outcome = f"AttributeError: {error}"
    print(sys.argv[1], name, outcome, flush=True)
    outcomes.append(outcome.split(":")[0])
if outcomes != ["resets", "resets" if old else "AttributeError"]:
    sys.exit("differs from the header")
PY

python3.11 -m venv "$folder/old"
"$folder/old/bin/pip" install -q 'tensorflow-cpu==2.15.1'
"$folder/old/bin/python" "$folder/reset.py" 2.15 2> "$folder/err" || { tail -3 "$folder/err"; exit 1; }
python3.11 -m venv "$folder/new"
"$folder/new/bin/pip" install -q 'keras==3.15.1' 'jax==0.10.2'
KERAS_BACKEND=jax "$folder/new/bin/python" "$folder/reset.py" 3.15.1
