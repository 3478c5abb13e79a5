"""Film reviews as word ranks, in the format of Keras's ``imdb.npz`` (Maas et al. 2011).

The file holds lists of different lengths: either as NumPy object arrays (pickles, read only
where the file's md5 is pinned) or, after ``rnnbench convert``, as ``x_train_values`` and
``x_train_offsets``: review i is ``values[offsets[i]:offsets[i + 1]]``.

What is done with them is what ``imdb.load_data`` and ``pad_sequences`` of Keras 2.0.6 do, with
their defaults: training samples shuffled with seed 113 and test samples with 226, ranks moved up
by 3, 1 put in front as the start, 2 for words of rank `words` and more; 0 fills up short reviews
in front, long ones lose their beginning. Later versions (``tf.keras`` of TensorFlow 1.15 to
Keras 3) differ in the order of the test samples alone: they go on with the stream of 113.
Source: keras/datasets/imdb.py and keras/preprocessing/sequence.py of 2.0.6.
"""

import numpy

SEEDS = {"train": 113, "test": 226}
START, UNKNOWN, FIRST_RANK = 1, 2, 3


def reviews(source, words, limits):
    """Reviews as lists of int32 arrays and labels as (samples, 1) float32 arrays.

    **Arguments:**

    - `source`: the file's arrays.
    - `words`: how many word indices there are, the reserved ones included.
    - `limits`: samples to keep as (training, validation), None for all.

    **Returns:** a dict ``x_train, y_train, x_val, y_val``.
    """
    result = {}
    for part, name, limit in (("train", "train", limits[0]), ("test", "val", limits[1])):
        values, offsets = _ragged(source, "x_" + part)
        order = numpy.arange(len(offsets) - 1)
        numpy.random.RandomState(SEEDS[part]).shuffle(order)
        order = order[:limit]
        values = values.astype("int32") + FIRST_RANK
        values[values >= words] = UNKNOWN
        start = numpy.array([START], "int32")
        result["x_" + name] = [
            numpy.concatenate([start, values[offsets[i] : offsets[i + 1]]]) for i in order
        ]
        result["y_" + name] = source["y_" + part][order].reshape(-1, 1).astype("float32")
    return result


def padded(sequences, length):
    """(samples, length) int32: the last `length` indices of each sequence, zeros in front."""
    result = numpy.zeros((len(sequences), length), "int32")
    for row, sequence in zip(result, sequences):
        kept = sequence[-length:]
        row[length - len(kept) :] = kept
    return result


def indices(source, config):
    """What the two recurrent models train on: ``model.words`` word indices, the last
    ``model.sequence`` words of each review."""
    model = config["model"]
    arrays = reviews(source, model["words"], (model["train_samples"], model["val_samples"]))
    for name in ("x_train", "x_val"):
        arrays[name] = padded(arrays[name], model["sequence"])
    return arrays


def _ragged(source, name):
    if name + "_offsets" in source:
        return source[name + "_values"], source[name + "_offsets"]
    lengths = [len(review) for review in source[name]]
    offsets = numpy.concatenate([[0], numpy.cumsum(lengths)]).astype("int64")
    values = numpy.fromiter((word for review in source[name] for word in review), "int64")
    return values, offsets
