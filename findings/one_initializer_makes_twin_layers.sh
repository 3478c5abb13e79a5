#!/usr/bin/env bash
# Two LSTM layers that are given the same initializer object, GlorotUniform() without a seed.
#
# Expected: an initializer without a seed draws anew for each weight, as in Keras 2.3.1.
# What happens: in Keras 2.15 and Keras 3 the object draws a seed when it is made and returns the same values for the same shape ever
#   after: both layers start as twins, and with as many features as units each kernel equals its recurrent kernel. Keras 2.15
#   warns, Keras 3 does not.
# Versions: keras 2.3.1 with tensorflow 1.15.5 (Python 3.7); tensorflow-cpu 2.15.1 (Keras 2.15) and keras 3.15.1 with jax 0.10.2 (Python 3.11).
# Seen on 2026-11-29: kernels of both layers, kernel and recurrent kernel, warnings
#   2.3.1   different, different, 0
#   2.15    equal, equal, 1 or more
#   3.15.1  equal, equal, 0
# Why it matters: a constant INIT = GlorotUniform() at the top of a file ties the layers of an ensemble or a pair of encoders.
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

cat > "$folder/twins.py" <<'PY'
import sys
import warnings

import numpy as np

version = sys.argv[1]
if version == "2.15":
    from tensorflow import keras
else:
    import keras

    assert keras.__version__ == version
if version == "2.3.1":
    initializer = keras.initializers.glorot_uniform()
else:
    initializer = keras.initializers.GlorotUniform()
inputs = keras.layers.Input((3, 4))
layers = []
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(2):
        layer = keras.layers.LSTM(4, kernel_initializer=initializer, recurrent_initializer=initializer)
        layer(inputs)
        layers.append(layer)
(kernel, recurrent, _), (other, _, _) = (layer.get_weights() for layer in layers)
warned = sum("nitializer" in str(warning.message) for warning in caught)
seen = [bool(np.array_equal(kernel, other)), bool(np.array_equal(kernel, recurrent)), warned > 0]
print("%-7s equal layers %s, equal kernels %s, warned %s" % (version, *seen), flush=True)
if seen != {"2.3.1": [False, False, False], "2.15": [True, True, True], "3.15.1": [True, True, False]}[version]:
    sys.exit("differs from the header")
PY

run() { "$@" 2> "$folder/err" || { tail -3 "$folder/err"; exit 1; }; }
"$python37" -m venv "$folder/old"
"$folder/old/bin/pip" install -q --disable-pip-version-check 'keras==2.3.1' 'tensorflow==1.15.5' 'protobuf==3.20.3' 'h5py==2.10.0'
run "$folder/old/bin/python" "$folder/twins.py" 2.3.1
"$python311" -m venv "$folder/middle"
"$folder/middle/bin/pip" install -q 'tensorflow-cpu==2.15.1'
run "$folder/middle/bin/python" "$folder/twins.py" 2.15
"$python311" -m venv "$folder/new"
"$folder/new/bin/pip" install -q 'keras==3.15.1' 'jax==0.10.2'
KERAS_BACKEND=jax run "$folder/new/bin/python" "$folder/twins.py" 3.15.1
