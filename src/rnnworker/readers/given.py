"""Data that is prepared already: the arrays of an ``.npz`` file as they are."""

from rnnworker import trees
from rnnworker.array_names import ARRAYS, WEIGHTS


def prepare(source, config):
    """The arrays ``x_train``, ``y_train``, ``x_val`` and ``y_val`` of the file, and if it has them
    ``sample_weight_train`` and ``sample_weight_val``; several inputs or outputs as
    ``x_train.NAME``."""
    return trees.nested(source, ARRAYS + WEIGHTS)
