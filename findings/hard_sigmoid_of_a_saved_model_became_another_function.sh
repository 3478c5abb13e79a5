#!/usr/bin/env bash
# An LSTM with the defaults of Keras 2.2, saved as .h5 by Keras 2.2.5 and loaded by Keras 2.15 and Keras 3.15.
#
# Expected: the file states its activations and weights, so a newer Keras either computes the same or refuses it.
# What happens: recurrent_activation was hard_sigmoid by default up to Keras 2.2. Keras 3 loads the file without a warning about it, but its
#   hard_sigmoid is x / 6 + 0.5 (Keras 2: 0.2 x + 0.5), so that every gate computes another function. Keras 2.15 computes the old one.
# Versions: keras 2.2.5 with tensorflow 1.15.5 (Python 3.7); tensorflow-cpu 2.15.1 (Keras 2.15) and keras 3.15.1 with jax 0.10.2
#   (Python 3.11).
# Seen on 2026-11-29, outputs up to 0.52: 2.15 off by 0.000000, 3.15.1 off by 0.051123.
# Why it matters: an old checkpoint answers slightly wrongly for ever, and nothing says so.
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

cat > "$folder/save.py" <<'PY'
import sys

import keras
import numpy as np

assert keras.__version__ == "2.2.5"
inputs = keras.layers.Input((12, 3))
model = keras.models.Model(inputs, keras.layers.LSTM(8)(inputs))
stream = np.random.RandomState(0)
model.set_weights([stream.uniform(-0.7, 0.7, value.shape) for value in model.get_weights()])
x = stream.normal(size=(4, 12, 3)).astype("float32")
np.savez(sys.argv[1] + "/seen.npz", x=x, y=model.predict(x))
model.save(sys.argv[1] + "/model.h5")
PY
cat > "$folder/load.py" <<'PY'
import sys
import warnings

import numpy as np

folder, version = sys.argv[1:]
if version == "2.15":
    from tensorflow import keras
else:
    import keras

    assert keras.__version__ == version
seen = np.load(folder + "/seen.npz")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    model = keras.models.load_model(folder + "/model.h5", compile=False)
if any("sigmoid" in str(warning.message) for warning in caught):
    sys.exit("differs from the header: a warning")
assert model.layers[1].get_config()["recurrent_activation"] == "hard_sigmoid"
outputs = np.asarray(model.predict(seen["x"], verbose=0))
off = float(np.abs(outputs - seen["y"]).max())
print("%-7s off by %.6f of %.2f" % (version, off, np.abs(seen["y"]).max()), flush=True)
if not (off < 1e-6 if version == "2.15" else 0.04 < off < 0.06):
    sys.exit("differs from the header")
PY

run() { "$@" 2> "$folder/err" || { tail -3 "$folder/err"; exit 1; }; }
"$python37" -m venv "$folder/old"
"$folder/old/bin/pip" install -q --disable-pip-version-check 'keras==2.2.5' 'tensorflow==1.15.5' 'protobuf==3.20.3' 'h5py==2.10.0'
run "$folder/old/bin/python" "$folder/save.py" "$folder"
"$python311" -m venv "$folder/middle"
"$folder/middle/bin/pip" install -q 'tensorflow-cpu==2.15.1'
run "$folder/middle/bin/python" "$folder/load.py" "$folder" 2.15
"$python311" -m venv "$folder/new"
"$folder/new/bin/pip" install -q 'keras==3.15.1' 'jax==0.10.2'
KERAS_BACKEND=jax run "$folder/new/bin/python" "$folder/load.py" "$folder" 3.15.1
