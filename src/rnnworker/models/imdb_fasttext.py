"""A bag of words and word pairs on film reviews (Joulin et al. 2016, arXiv:1607.01759).
Source: Keras's example ``imdb_fasttext.py`` with ``ngram_range = 2``.

The example gives an index to every pair in the training reviews. Here only the ``model.bigrams``
most frequent pairs have an index, so that the size of the model is known without the data.
"""

import numpy

from rnnworker.readers import imdb


def prepare(source, config):
    """x (samples, sequence) int32: the words of a review, then its pairs that have an index; the
    last ``sequence`` of these. y (samples, 1) float32."""
    model = config["model"]
    arrays = imdb.reviews(source, model)
    known = _frequent(arrays["x_train"], model["words"], model["bigrams"])
    for name in ("x_train", "x_val"):
        extended = []
        for review in arrays[name]:
            extended.append(append_pairs(review, known, model["words"]))
        arrays[name] = imdb.pad(extended, model["sequence"])
    return arrays


def append_pairs(review, known, words):
    """`review`, followed by the indices of its known pairs in the order of the text.

    `review`: (words,) int32;
    `known`: pairs as ``first · words + second``, in ascending order; the pair at position k has the
    index ``words + k``;
    `words`: the number of different words.
    """
    if not len(known):
        return review
    pairs = _pairs(review, words)
    positions = numpy.searchsorted(known, pairs)
    positions = numpy.minimum(positions, len(known) - 1)
    matches = positions[known[positions] == pairs]
    indices = words + matches.astype("int32")
    return numpy.concatenate([review, indices])


def build(keras, recurrent, config):
    """Embedding → mean over the review → sigmoid."""
    layers = keras.layers
    model = config["model"]
    indices = model["words"] + model["bigrams"]
    inputs = layers.Input(shape=(model["sequence"],), dtype="int32")
    vectors = layers.Embedding(indices, model["embedding"])(inputs)
    mean = layers.GlobalAveragePooling1D()(vectors)
    outputs = layers.Dense(1, activation="sigmoid")(mean)
    return keras.models.Model(inputs, outputs)


def _frequent(reviews, words, limit):
    """The `limit` most frequent pairs of the reviews, in ascending order. Of equally frequent ones,
    those with the smaller numbers are taken."""
    pairs = numpy.concatenate([_pairs(review, words) for review in reviews])
    distinct, counts = numpy.unique(pairs, return_counts=True)
    order = numpy.argsort(-counts, kind="mergesort")[:limit]
    return numpy.sort(distinct[order])


def _pairs(review, words):
    """Each two neighbours in a review as one number: (words - 1,) int64."""
    wide = review.astype("int64")
    return wide[:-1] * words + wide[1:]
