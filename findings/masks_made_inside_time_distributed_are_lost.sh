#!/usr/bin/env bash
# A document of sentences of words, padded: TimeDistributed(Embedding(mask_zero=True)), then TimeDistributed(LSTM).
#
# Expected: the LSTM skips the padded words of each sentence, as in Keras 2.15.
# What happens: Keras 3 hands on no mask that a layer inside TimeDistributed makes, Embedding or Masking, without a warning: the LSTM
#   reads the padding. The same layer without its wrapper masks (Embedding takes three axes), and so does one TimeDistributed around
#   a model of both.
# Versions: tensorflow-cpu 2.15.1 (Keras 2.15); keras 3.15.1 with jax 0.10.2 (torch and TensorFlow do the same). Python 3.11.
# Seen on 2026-11-29: the words that a counting SimpleRNN reads in sentences of 2 and 4 words, padded to 5:
#            TD(Embedding)  TD(Masking)  Embedding  Masking  TD of a model of both
#   2.15     2 4            2 4          2 4        2 4      2 4
#   3.15.1   5 5            5 5          2 4        2 4      2 4
# Why it matters: a hierarchical model that is migrated, weights and all, reads the padding of every sentence.
set -euo pipefail
command -v python3.11 > /dev/null || { echo "this needs python3.11"; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TF_CPP_MIN_LOG_LEVEL=3 OMP_NUM_THREADS=1

cat > "$folder/words.py" <<'PY'
import sys

import numpy as np

if sys.argv[1] == "2.15":
    from tensorflow import keras
else:
    import keras
layers = keras.layers
words = np.array([[[3, 1, 0, 0, 0], [2, 2, 1, 3, 0]]])  # document, sentence, word
vectors = np.repeat(words[..., None], 2, -1).astype("float32")
each = layers.TimeDistributed


def counter():
    return layers.SimpleRNN(
        1, "linear", kernel_initializer="zeros", recurrent_initializer="ones", bias_initializer="ones"
    )


def embedding():
    return layers.Embedding(4, 2, mask_zero=True)


def model_of_both():
    sentence = layers.Input((5,))
    return keras.Model(sentence, counter()(embedding()(sentence)))


kinds = {
    "TD(Embedding)": (words, lambda x: each(counter())(each(embedding())(x))),
    "TD(Masking)": (vectors, lambda x: each(counter())(each(layers.Masking())(x))),
    "Embedding": (words, lambda x: each(counter())(embedding()(x))),
    "Masking": (vectors, lambda x: each(counter())(layers.Masking()(x))),
    "TD of a model of both": (words, each(model_of_both())),
}
for kind, (data, built) in kinds.items():
    document = layers.Input(data.shape[1:])
    model = keras.Model(document, built(document))
    read = [int(number) for number in model.predict(data, verbose=0)[0, :, 0]]
    print(sys.argv[1], kind, *read, flush=True)
    is_lost = sys.argv[1] == "3.15.1" and kind in ("TD(Embedding)", "TD(Masking)")
    if read != ([5, 5] if is_lost else [2, 4]):
        sys.exit("differs from the header")
PY

python3.11 -m venv "$folder/old"
"$folder/old/bin/pip" install -q 'tensorflow-cpu==2.15.1'
"$folder/old/bin/python" "$folder/words.py" 2.15 2> "$folder/err" || { tail -3 "$folder/err"; exit 1; }
python3.11 -m venv "$folder/new"
"$folder/new/bin/pip" install -q 'keras==3.15.1' 'jax==0.10.2'
KERAS_BACKEND=jax "$folder/new/bin/python" "$folder/words.py" 3.15.1 2> "$folder/err" || { tail -3 "$folder/err"; exit 1; }
