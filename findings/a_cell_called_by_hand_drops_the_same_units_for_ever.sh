#!/usr/bin/env bash
# A decoder that calls LSTMCell(dropout=0.5) step by step, with training=True, batch after batch.
#
# Expected: a new dropout mask for each call, as Dropout draws, or at least for each batch.
# What happens: the first call draws a mask and the cell keeps it for ever, over steps, batches and sequences: half of the inputs
#   are never seen again. Only reset_dropout_mask() ends it; the layers RNN and LSTM call it, a loop of one's own does not.
# Versions: keras 3.15.1 with jax 0.10.2, Python 3.11.
# Seen on 2026-11-29:
#   100 calls: 1 mask; with reset_dropout_mask(): 100; Dropout: 100
#   20 calls of an LSTMCell on one input: 1 output
# Why it matters: the model trains on half of its inputs (and never on the rest), with a loss curve that looks ordinary.
set -euo pipefail
command -v python3.11 > /dev/null || { echo "this needs python3.11"; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OMP_NUM_THREADS=1 KERAS_BACKEND=jax

cat > "$folder/cell.py" <<'PY'
import sys

import keras
import numpy as np
from keras import layers


def masks(reset):
    """How many different masks 100 calls of a cell use."""
    cell = layers.SimpleRNNCell(64, "linear", dropout=0.5, kernel_initializer="identity")
    seen = set()
    for _ in range(100):
        output, _ = cell(np.ones((1, 64), "float32"), [np.zeros((1, 64), "float32")], training=True)
        seen.add(np.asarray(output).tobytes())
        if reset:
            cell.reset_dropout_mask()
    return len(seen), cell


kept, cell = masks(reset=False)
renewed, _ = masks(reset=True)
dropout = layers.Dropout(0.5)
ordinary = len({np.asarray(dropout(np.ones((1, 64)), training=True)).tobytes() for _ in range(100)})
lstm = layers.LSTMCell(4, dropout=0.5, recurrent_dropout=0.5)
ones = [np.ones((1, 4), "float32")] * 2
calls = {np.asarray(lstm(np.ones((1, 64), "float32"), ones, training=True)[0]).tobytes() for _ in range(20)}
print(f"100 calls: {kept} mask; with reset_dropout_mask(): {renewed}; Dropout: {ordinary}")
print(f"20 calls of an LSTMCell on one input: {len(calls)} output")
if (kept, len(calls)) != (1, 1) or renewed < 90 or ordinary < 90:
    sys.exit("differs from the header")
PY

python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q 'keras==3.15.1' 'jax==0.10.2'
"$folder/venv/bin/python" "$folder/cell.py"
