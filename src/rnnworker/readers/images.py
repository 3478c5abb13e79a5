"""Labelled images: MNIST in the format of Keras's ``mnist.npz`` (LeCun et al. 1998), and CIFAR-10
in its authors' archive, ``cifar-10-python.tar.gz`` (Krizhevsky 2009).

The archive contains pickles: `rnnworker.data` opens it only if the file's md5 is pinned.
Each batch is a dict with ``data``, (10,000, 3072) bytes in the order channel, row, column,
and ``labels``; batches 1 to 5 are for training, ``test_batch`` is for validation.
Source: https://www.cs.toronto.edu/~kriz/cifar.html
"""

import pickle
import tarfile
from typing import IO, Dict, Sequence, cast

import numpy

MNIST_SIDE = 28
CIFAR10_SIDE = 32


Arrays = Dict[str, numpy.ndarray]


def labelled(source: Arrays, shape: Sequence[int]) -> Arrays:
    """Images (samples, `shape`) float32 in 0–1 and labels (samples,) int64 0–9. The file's
    ``x_test`` is the validation set, as in the published examples."""
    arrays = {}
    for part, name in (("train", "train"), ("test", "val")):
        pixels = source["x_" + part].astype("float32") / 255.0
        labels = source["y_" + part].reshape(-1)
        arrays["x_" + name] = pixels.reshape((-1,) + tuple(shape))
        arrays["y_" + name] = labels.astype("int64")
    return arrays


def unpickle_cifar10(path: str) -> Arrays:
    """``x_train, y_train, x_test, y_test``: images (samples, 32, 32, 3) uint8, labels int64."""
    batches = {
        "train": ["data_batch_{}".format(number) for number in range(1, 6)],
        "test": ["test_batch"],
    }
    arrays: Arrays = {}
    with tarfile.open(path) as archive:
        members = {}
        for member in archive.getmembers():
            members[member.name.split("/")[-1]] = member
        for part in batches:
            pixels = []
            labels = []
            for name in batches[part]:
                file = cast(IO[bytes], archive.extractfile(members[name]))  # it is no folder
                batch = pickle.load(file, encoding="bytes")
                pixels.append(batch[b"data"])
                labels.append(batch[b"labels"])
            rows = numpy.concatenate(pixels)
            channel_first = rows.reshape(-1, 3, CIFAR10_SIDE, CIFAR10_SIDE)
            arrays["x_" + part] = channel_first.transpose(0, 2, 3, 1)
            arrays["y_" + part] = numpy.concatenate(labels).astype("int64")
    return arrays
