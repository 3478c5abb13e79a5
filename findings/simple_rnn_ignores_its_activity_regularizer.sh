#!/usr/bin/env bash
# SimpleRNN(4, activity_regularizer="l2"), beside LSTM and GRU with the same argument.
#
# Expected: each adds one loss to its model, as every Keras layer with this argument does.
# What happens: in Keras 3.15 LSTM and GRU do. SimpleRNN takes the argument, keeps it in no place that is read, and adds none; its
#   config has null in it. In Keras 2.15 all three add one.
# Versions: keras 3.15.1 with jax 0.10.2, keras 2.15.0 with tensorflow-cpu 2.15.1, Python 3.11.
# Seen on 2026-11-29:
#   keras 2.15.0: SimpleRNN 1, LSTM 1, GRU 1   config: L2
#   keras 3.15.1: SimpleRNN 0, LSTM 1, GRU 1   config: None
# Why it matters: a model that moves from Keras 2 loses its penalty without a word, and in a comparison of cells only one is unpenalized.
set -euo pipefail
command -v python3.11 > /dev/null || { echo "this needs python3.11"; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OMP_NUM_THREADS=1 TF_CPP_MIN_LOG_LEVEL=3 CUDA_VISIBLE_DEVICES=-1

cat > "$folder/penalties.py" <<'PY'
import sys

import keras
import numpy as np

counts = {}
for name in ("SimpleRNN", "LSTM", "GRU"):
    layer = getattr(keras.layers, name)(4, activity_regularizer="l2")
    model = keras.Sequential([keras.Input((5, 3)), layer])
    model(np.ones((2, 5, 3), "float32"))
    counts[name] = len(model.losses)
simple = keras.layers.SimpleRNN(4, activity_regularizer="l2")
config = simple.get_config()["activity_regularizer"]
kept = config["class_name"] if config else None
text = ", ".join(f"{name} {count}" for name, count in counts.items())
print(f"keras {keras.__version__}: {text}   config: {kept}")
expected = {"SimpleRNN": int(sys.argv[1]), "LSTM": 1, "GRU": 1}
if counts != expected or (kept == "L2") != (sys.argv[1] == "1"):
    sys.exit("differs from the header")
PY

python3.11 -m venv "$folder/old"
"$folder/old/bin/pip" install -q 'tensorflow-cpu==2.15.1' 'keras==2.15.0'
python3.11 -m venv "$folder/new"
"$folder/new/bin/pip" install -q 'keras==3.15.1' 'jax==0.10.2'
"$folder/old/bin/python" "$folder/penalties.py" 1 2> "$folder/log" || { tail -5 "$folder/log"; exit 1; }
KERAS_BACKEND=jax "$folder/new/bin/python" "$folder/penalties.py" 0 2> "$folder/log" || { tail -5 "$folder/log"; exit 1; }
