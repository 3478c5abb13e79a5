"""Reads a dataset's bytes and prepares a model's arrays from them."""

import io
import os

import numpy

from rnnworker import loading


def arrays(config, path):
    """What the model trains on.

    **Arguments:**

    - `config`: the run's config; ``model.data.prepare`` names a function of (source, config).
    - `path`: the dataset's file, its md5 already verified; None where the model makes its own.

    **Returns:** a dict of arrays ``x_train, y_train, x_val, y_val``, samples first.
    """
    prepare = loading.function(config["model"]["data"]["prepare"])
    prepared = prepare(source(path), config)
    missing = {"x_train", "y_train", "x_val", "y_val"} - set(prepared)
    if missing:
        raise ValueError(
            "{} did not return {}".format(
                config["model"]["data"]["prepare"], ", ".join(sorted(missing))
            )
        )
    return prepared


def source(path):
    """The dataset's content: a dict of arrays for ``.npz``, else its path. Pickles are
    never loaded."""
    if path is None:
        return None
    if path.endswith(".npz"):
        with numpy.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    return os.path.abspath(path)


def text(path):
    """A text file, UTF-8."""
    with io.open(path, encoding="utf-8") as file:
        return file.read()


def epoch_order(seed, epoch, samples):
    """The order of the samples in an epoch: the same for every implementation and
    framework. ``RandomState`` because its stream is frozen across NumPy versions."""
    stream = numpy.random.RandomState((seed * 100003 + epoch) % 2**32)
    return stream.permutation(samples).astype("int64")
