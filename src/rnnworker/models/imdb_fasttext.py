"""A bag of words and word pairs on film reviews (Joulin et al. 2016, arXiv:1607.01759).
Source: Keras's example ``imdb_fasttext.py`` with ``ngram_range = 2``.

The example gives every pair of the training reviews an index. Here ``model.bigrams`` says how
many pairs have one, the most frequent ones, so that the model's size is known without the data.
"""

import numpy

from rnnworker.readers import imdb


def prepare(source, config):
    """x (samples, sequence) int32: a review's words, then those of its pairs that have an
    index; of all that, the last ``sequence``. y (samples, 1) float32."""
    model = config["model"]
    arrays = imdb.reviews(source, model["words"], (model["train_samples"], model["val_samples"]))
    known = _frequent(arrays["x_train"], model["words"], model["bigrams"])
    for name in ("x_train", "x_val"):
        longer = [with_pairs(review, known, model["words"]) for review in arrays[name]]
        arrays[name] = imdb.padded(longer, model["sequence"])
    return arrays


def with_pairs(review, known, words):
    """`review` with the indices of its known pairs behind it, in the order of the text.

    `known` holds pairs as ``first · words + second``, ascending; the pair at place k has the
    index ``words + k``."""
    pairs = _pairs(review, words)
    if not len(known):
        return review
    places = numpy.minimum(numpy.searchsorted(known, pairs), len(known) - 1)
    found = places[known[places] == pairs]
    return numpy.concatenate([review, words + found.astype("int32")])


def build(keras, recurrent, config):
    """Embedding → mean over the review → sigmoid."""
    layers, model = keras.layers, config["model"]
    inputs = layers.Input(shape=(model["sequence"],), dtype="int32")
    vectors = layers.Embedding(model["words"] + model["bigrams"], model["embedding"])(inputs)
    mean = layers.GlobalAveragePooling1D()(vectors)
    outputs = layers.Dense(1, activation="sigmoid")(mean)
    return keras.models.Model(inputs, outputs)


def _frequent(reviews, words, most):
    pairs = numpy.concatenate([_pairs(review, words) for review in reviews])
    found, counts = numpy.unique(pairs, return_counts=True)
    order = numpy.argsort(-counts, kind="mergesort")[:most]
    return numpy.sort(found[order])


def _pairs(review, words):
    wide = review.astype("int64")
    return wide[:-1] * words + wide[1:]
