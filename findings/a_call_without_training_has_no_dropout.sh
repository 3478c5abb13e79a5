#!/usr/bin/env bash
# Two subclassed models with Dropout and BatchNormalization, trained by fit: call(self, inputs) without an argument training, and
# call(self, inputs, training=None), which does not hand it on to its layers.
#
# Expected: fit trains, so that Dropout drops and BatchNormalization moves its mean, as in Keras 2, where both forms are common.
# What happens: in Keras 2.15 it is so. In Keras 3.15 fit trains the first model in the form that it has in predict: nothing is dropped, the
#   mean stays 0, and nothing is said. The second one is trained on TensorFlow, and on jax has no dropout and no mean either.
# Versions: keras 3.15.1 with jax 0.10.2 or tensorflow-cpu 2.21.0, keras 2.15.0 with tensorflow-cpu 2.15.1, Python 3.11.
# Seen on 2026-11-30, in the order Dropout drops, mean moves:
#   keras 2.15.0 tensorflow: without the argument True True     not handed on True True
#   keras 3.15.1 tensorflow: without the argument False False   not handed on True True
#   keras 3.15.1 jax:        without the argument False False   not handed on False False
# Why it matters: a model that moves to Keras 3 or to jax as code loses its dropout and the statistics of its normalization, without an
#   error. A call that takes training and hands it on to each layer is trained everywhere.
set -euo pipefail
command -v python3.11 > /dev/null || { echo "this needs python3.11"; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OMP_NUM_THREADS=1 TF_CPP_MIN_LOG_LEVEL=3 CUDA_VISIBLE_DEVICES=-1

cat > "$folder/trained.py" <<'PY'
import sys

import keras
import numpy as np


class Without(keras.Model):
    def __init__(self):
        super().__init__()
        self.dropout = keras.layers.Dropout(0.5)
        self.normalization = keras.layers.BatchNormalization()

    def call(self, inputs):
        return self.normalization(self.dropout(inputs))


class NotHandedOn(Without):
    def call(self, inputs, training=None):
        return self.normalization(self.dropout(inputs))


def trained(kind):
    """Whether fit has drawn other losses than without dropout, and whether it has moved the mean."""
    ones = np.ones((64, 8), "float32")
    losses = []
    for rate in (0.5, 0.0):
        model = kind()
        model.dropout.rate = rate
        model.compile("sgd", "mse")
        losses.append(model.fit(ones, ones, batch_size=64, verbose=0).history["loss"][0])
        mean = np.asarray(model.normalization.moving_mean)
    return losses[0] != losses[1], bool(abs(mean).max() > 0)


seen = [trained(kind) for kind in (Without, NotHandedOn)]
texts = [" ".join(map(str, each)) for each in seen]
print(f"keras {keras.__version__} {keras.backend.backend()}: without the argument {texts[0]}   not handed on {texts[1]}")
if [text.split()[0] for text in texts] != sys.argv[1:] or any(drops != moves for drops, moves in seen):
    sys.exit("differs from the header")
PY

python3.11 -m venv "$folder/old"
"$folder/old/bin/pip" install -q 'tensorflow-cpu==2.15.1' 'keras==2.15.0'
python3.11 -m venv "$folder/new"
"$folder/new/bin/pip" install -q 'keras==3.15.1' 'tensorflow-cpu==2.21.0' 'jax==0.10.2'
run() {
  KERAS_BACKEND=$2 "$folder/$1/bin/python" "$folder/trained.py" "$3" "$4" 2> "$folder/log" || { tail -5 "$folder/log"; exit 1; }
}
run old tensorflow True True
run new tensorflow False True
run new jax False False
