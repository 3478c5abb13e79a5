"""Film reviews as word ranks, in the format of Keras's ``imdb.npz`` (Maas et al. 2011).

The file contains lists of different lengths, either as NumPy object arrays (pickles, which are
read only if the file's md5 is pinned) or as ``x_train_values`` and ``x_train_offsets``: review i is
``values[offsets[i]:offsets[i + 1]]``.

The functions do the same as ``imdb.load_data`` and ``pad_sequences`` of Keras 2.0.6 with their
defaults: they shuffle training samples with seed 113 and test samples with 226, add 3 to the
ranks, replace indices of `words` or more by 2, put 1 at the start of each review, pad short
reviews with 0 at the beginning, and cut the beginning of long ones. Later versions (``tf.keras`` of
TensorFlow 1.15 to Keras 3) differ only in the order of the test samples: they continue the random
stream of seed 113.
Source: keras/datasets/imdb.py and keras/preprocessing/sequence.py of 2.0.6.
"""

import itertools

import numpy

SEEDS = {"train": 113, "test": 226}
START = 1
UNKNOWN = 2
FIRST_RANK = 3


def reviews(source, model):
    """The reviews as lists of int32 arrays, the labels as (samples, 1) float32 arrays, in a dict
    ``x_train, y_train, x_val, y_val``. `source`: the file's arrays; `model`: ``words``, the number
    of word indices, including the reserved ones, and the numbers of samples to keep (None: all),
    ``train_samples`` and ``val_samples``."""
    result = {}
    words = model["words"]
    for part, name in (("train", "train"), ("test", "val")):
        values, offsets = _ragged(source, "x_" + part)
        order = numpy.arange(len(offsets) - 1)
        numpy.random.RandomState(SEEDS[part]).shuffle(order)
        order = order[: model.get(name + "_samples")]
        values = values.astype("int32") + FIRST_RANK
        values[values >= words] = UNKNOWN
        start = numpy.array([START], "int32")
        kept = []
        for number in order:
            first = offsets[number]
            end = offsets[number + 1]
            kept.append(numpy.concatenate([start, values[first:end]]))
        labels = source["y_" + part][order]
        result["x_" + name] = kept
        result["y_" + name] = labels.reshape(-1, 1).astype("float32")
    return result


def pad(sequences, length):
    """(samples, length) int32: the last `length` indices of each sequence after zeros."""
    result = numpy.zeros((len(sequences), length), "int32")
    for row, sequence in zip(result, sequences):
        end = sequence[-length:]
        first = length - len(end)
        row[first:] = end
    return result


def word_indices(source, config):
    """The arrays of the recurrent models: the last ``model.sequence`` words of each review, with
    ``model.words`` different word indices."""
    model = config["model"]
    arrays = reviews(source, model)
    for name in ("x_train", "x_val"):
        arrays[name] = pad(arrays[name], model["sequence"])
    return arrays


def _ragged(source, name):
    if name + "_offsets" in source:
        return source[name + "_values"], source[name + "_offsets"]
    lengths = [len(review) for review in source[name]]
    offsets = numpy.cumsum([0] + lengths).astype("int64")
    words = itertools.chain.from_iterable(source[name])
    return numpy.fromiter(words, "int64"), offsets
