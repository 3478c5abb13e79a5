"""CIFAR-10 in its authors' archive, ``cifar-10-python.tar.gz`` (Krizhevsky 2009).

The archive contains pickles: `rnnworker.data` opens it only if the file's md5 is pinned.
Each batch is a dict with ``data``, (10,000, 3072) bytes in the order channel, row, column,
and ``labels``; batches 1 to 5 are for training, ``test_batch`` is for validation.
Source: https://www.cs.toronto.edu/~kriz/cifar.html
"""

import pickle
import tarfile

import numpy

TRAINING = ["data_batch_{}".format(number) for number in range(1, 6)]


def unpickle(path):
    """``x_train, y_train, x_test, y_test``: images (samples, 32, 32, 3) uint8, labels int64."""
    with tarfile.open(path) as archive:
        members = {member.name.split("/")[-1]: member for member in archive.getmembers()}
        batches = {
            name: pickle.load(archive.extractfile(members[name]), encoding="bytes")
            for name in TRAINING + ["test_batch"]
        }
    x_train = numpy.concatenate([images(batches[name][b"data"]) for name in TRAINING])
    y_train = numpy.concatenate([batches[name][b"labels"] for name in TRAINING])
    return {
        "x_train": x_train,
        "y_train": y_train.astype("int64"),
        "x_test": images(batches["test_batch"][b"data"]),
        "y_test": numpy.asarray(batches["test_batch"][b"labels"], "int64"),
    }


def images(rows):
    """(samples, 3072) bytes, channel first → (samples, 32, 32, 3)."""
    return rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
