#!/usr/bin/env bash
# A subclass of LSTM, written in the same file and not registered, in Bidirectional and in TimeDistributed.
#
# Expected: both wrappers take it, as they take an LSTM, and as both do in Keras 2.15.
# What happens: in Keras 3, Bidirectional raises TypeError "Could not locate class" when it is made, because it copies the layer by
#   serialization, which finds only registered classes. TimeDistributed does not copy, and takes it.
# Versions: keras 3.15.1 with jax 0.10.2, keras 2.15.0 with tensorflow-cpu 2.15.1, Python 3.11.
# Seen on 2026-11-30:
#   keras 2.15.0: Bidirectional ok, TimeDistributed ok
#   keras 3.15.1: Bidirectional TypeError, TimeDistributed ok
# Why it matters: a layer of one's own that worked in both directions has to be registered, although nothing is saved or loaded.
set -euo pipefail
command -v python3.11 > /dev/null || { echo "this needs python3.11"; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OMP_NUM_THREADS=1 TF_CPP_MIN_LOG_LEVEL=3 CUDA_VISIBLE_DEVICES=-1

cat > "$folder/wrapped.py" <<'PY'
import sys

import keras


class Own(keras.layers.LSTM):
    pass


seen = []
for wrapper in (keras.layers.Bidirectional, keras.layers.TimeDistributed):
    try:
        wrapper(Own(3))
        seen.append("ok")
    except TypeError as error:
        seen.append("TypeError" if "Could not locate class" in str(error) else str(error))
print(f"keras {keras.__version__}: Bidirectional {seen[0]}, TimeDistributed {seen[1]}")
if seen != [sys.argv[1], "ok"]:
    sys.exit("differs from the header")
PY

python3.11 -m venv "$folder/old"
"$folder/old/bin/pip" install -q 'tensorflow-cpu==2.15.1' 'keras==2.15.0'
python3.11 -m venv "$folder/new"
"$folder/new/bin/pip" install -q 'keras==3.15.1' 'jax==0.10.2'
run() {
  KERAS_BACKEND=jax "$folder/$1/bin/python" "$folder/wrapped.py" "$2" 2> "$folder/log" || { tail -5 "$folder/log"; exit 1; }
}
run old ok
run new TypeError
