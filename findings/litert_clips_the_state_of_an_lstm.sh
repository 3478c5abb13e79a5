#!/usr/bin/env bash
# An LSTM that counts: its state goes up by 1 in 20 steps and down by 1 in the next 20. Converted to LiteRT, in float32.
#
# Expected: what Keras computes, within rounding: an LSTM with tanh is one operator of LiteRT, and nobody asked for a clip.
# What happens: the converter writes cell_clip = 10 into that operator. The state stays at 10 while Keras's reaches 20, so that
#   it is back at 0 after 30 steps instead of 40, and the outputs of the last ten steps have the other sign.
# Versions: tensorflow 2.15.1 (its converter and its interpreter), Python 3.11.
# Seen on 2026-11-29:
#   operators: UNIDIRECTIONAL_SEQUENCE_LSTM
#   largest difference in steps 1 to 20: 0e+00; in steps 31 to 39: 2.0
#   after step 35: Keras 1.000, LiteRT -1.000
# Why it matters: a test with a few short, random samples sees equal models; one that counts or remembers long differs.
set -euo pipefail
command -v python3.11 > /dev/null || { echo "this needs python3.11"; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TF_CPP_MIN_LOG_LEVEL=3 CUDA_VISIBLE_DEVICES=""

cat > "$folder/counting.py" <<'PY'
import sys

import numpy as np
import tensorflow as tf

UP, DOWN = 20, 20
lstm = tf.keras.layers.LSTM(1, return_sequences=True)
model = tf.keras.Sequential([tf.keras.Input((UP + DOWN, 1), batch_size=1), lstm])
# All gates are open. The candidate is 1, or -1 where the input is 1.
lstm.set_weights([np.array([[0, 0, -40, 0]]), np.zeros((1, 4)), np.full(4, 20)])
x = np.zeros((1, UP + DOWN, 1), "float32")
x[0, UP:] = 1
expected = model.predict(x, verbose=0)[0, :, 0]

interpreter = tf.lite.Interpreter(model_content=tf.lite.TFLiteConverter.from_keras_model(model).convert())
operators = [each["op_name"] for each in interpreter._get_ops_details()]
interpreter.allocate_tensors()
interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
interpreter.invoke()
found = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])[0, :, 0]

apart = np.abs(found - expected)
print(f"operators: {', '.join(operators)}")
print(f"largest difference in steps 1 to 20: {apart[:20].max():.0e}; in steps 31 to 39: {apart[30:39].max():.1f}")
print(f"after step 35: Keras {expected[34]:.3f}, LiteRT {found[34]:.3f}")
if operators != ["UNIDIRECTIONAL_SEQUENCE_LSTM"] or apart[:20].max() > 1e-4 or not found[34] < -0.9 < 0.9 < expected[34]:
    sys.exit("differs from the header")
PY

python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q 'tensorflow==2.15.1' 'numpy==1.26.4'
"$folder/venv/bin/python" "$folder/counting.py" 2> /dev/null
