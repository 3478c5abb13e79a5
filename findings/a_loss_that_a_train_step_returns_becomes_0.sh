#!/usr/bin/env bash
# A model with a train_step of its own returns {"loss": loss}, as with Keras 2; compile has an optimizer only.
#
# Expected: fit reports the loss that the step returns, as it does under any other name.
# What happens: Keras 3 reports 0 in each epoch. The model trains. Keras has a metric called loss of its own; as the names of
#   what the step returns are those of its metrics, it reports its metrics, which the step has never updated. With a loss in
#   compile it is the same. Keras 2.15 reports what is returned.
# Versions: keras 3.15.1 with tensorflow 2.21.0 and torch 2.13.0; tensorflow 2.15.0 with keras 2.15.0; Python 3.11.
# Seen on 2026-11-30 (what fit reports in two epochs; called "loss", called "own"):
#   keras 3.15.1 on tensorflow: loss 0, 0; own 2.41, 2.13
#   keras 3.15.1 on torch: loss 0, 0; own 1.65, 1.41
#   keras 2.15.0 on tensorflow: loss 1.17, 0.805; own 1.17, 0.805
# Why it matters: callbacks that monitor the loss stop or save at once, and a comparison of loss curves finds the two equal.
set -euo pipefail
command -v python3.11 > /dev/null || { echo "this needs python3.11"; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OMP_NUM_THREADS=1 TF_CPP_MIN_LOG_LEVEL=3 CUDA_VISIBLE_DEVICES=-1

cat > "$folder/returned.py" <<'PY'
import sys

import keras
import numpy as np

backend = keras.backend.backend()
is_old = keras.__version__.startswith("2.")


class Own(keras.Model):
    def __init__(self, called):
        super().__init__()
        self.lstm = keras.layers.LSTM(4)
        self.head = keras.layers.Dense(1)
        self.called = called

    def call(self, inputs):
        return self.head(self.lstm(inputs))

    def train_step(self, data):
        x, y = data
        if backend == "torch":
            self.zero_grad()
            loss = ((self(x, training=True) - y) ** 2).mean()
            loss.backward()
            gradients = [each.value.grad for each in self.trainable_weights]
            self.optimizer.apply(gradients, self.trainable_weights)
        else:
            import tensorflow as tf

            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((self(x, training=True) - y) ** 2)
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
        return {self.called: loss}


numbers = np.random.default_rng(0)
x = numbers.random((64, 5, 3)).astype("float32")
y = 1 + numbers.random((64, 1)).astype("float32")
reported = {}
for called in ("loss", "own"):
    keras.utils.set_random_seed(0)
    model = Own(called)
    model.compile("sgd")
    reported[called] = model.fit(x, y, epochs=2, verbose=0).history[called]
texts = [f"{name} " + ", ".join(f"{value:.3g}" for value in found) for name, found in reported.items()]
print(f"keras {keras.__version__} on {backend}: {'; '.join(texts)}")
falls = {name: found[0] > found[1] > 0.1 for name, found in reported.items()}
if falls != {"loss": is_old, "own": True} or (not is_old and reported["loss"] != [0.0, 0.0]):
    sys.exit("differs from the header")
PY

python3.11 -m venv "$folder/new"
"$folder/new/bin/pip" install -q 'keras==3.15.1' 'tensorflow-cpu==2.21.0' 'torch==2.13.0'
for backend in tensorflow torch; do
    KERAS_BACKEND=$backend "$folder/new/bin/python" "$folder/returned.py"
done
python3.11 -m venv "$folder/old"
"$folder/old/bin/pip" install -q 'tensorflow-cpu==2.15.0' 'keras==2.15.0'
"$folder/old/bin/python" "$folder/returned.py"
