"""The samples on which implementations are certified."""

from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

import numpy

from rnnworker import data, precision, trees
from rnnworker.json_types import Config, Job

Size = Tuple[int, bool]  # of a batch: its rows, and whether it is one of the training set


def samples_of(job: Job) -> Tuple[Dict[str, trees.Tree], List[Size]]:
    """The arrays of a certificate, and the sizes of the batches that it tests.

    `job`: see `certify.certify`. Each of its ``batches`` may change the data as well as the size of
    a batch; the layers and steps are tested on the arrays of the config.

    **Returns:** (arrays, sizes). `sizes` has (rows, training) of all batches that runs on the
    device take, whole and last ones, with True from the training set and with False from the
    validation set, the largest of the training first. Raises `Refusal` if the data cannot be used.
    """
    config = job["config"]
    model = config["model"]
    dataset = job["dataset"]
    pinned_md5 = job.get("pinned_md5")
    arrays = data.arrays(config, dataset, pinned_md5)
    sizes: Set[Tuple[bool, int]] = set()
    for settings in job.get("batches") or [{}]:
        changed = dict(model, **settings)
        batch = changed["batch"]
        changed["batch"] = model["batch"]  # no reason to load other data
        found = arrays
        if changed != model:
            found = data.arrays(dict(config, model=changed), dataset, pinned_md5)
        for part, training in (("x_train", True), ("x_val", False)):
            samples = trees.rows(found[part])
            for rows in precision.batch_sizes(samples, batch):
                sizes.add((training, rows))
    ordered = sorted(sizes, reverse=True)
    return arrays, [(rows, training) for training, rows in ordered]


def not_finite(arrays: trees.Tree, prepare: str) -> Optional[str]:
    """Returns a message about the first of the `arrays` with a value that is not finite, or None.
    `prepare`: the function that made them."""
    for name, array in trees.named(arrays):
        has_fractions = numpy.asarray(array).dtype.kind == "f"
        if has_fractions and not numpy.isfinite(array).all():
            return "{} of {} has NaN or infinite values".format(name, prepare)
    return None


def first_batches(
    arrays: Dict[str, trees.Tree],
    config: Config,
    steps: int,
) -> Iterator[Tuple[Any, ...]]:
    """Yields the first `steps` training batches, (x, y) or (x, y, weights)."""
    samples = data.samples(arrays, "train")
    for chosen in first_orders(config, trees.rows(samples), steps):
        yield trees.taken(samples, chosen)


def first_orders(config: Config, samples: int, steps: int) -> List[numpy.ndarray]:
    """Returns the numbers of the samples in each of the first `steps` training batches, of
    ``model.batch`` samples; repeats the `samples` (their number) if necessary."""
    order = data.epoch_order(config["seed"], 0, samples)
    order = numpy.resize(order, steps * config["model"]["batch"])
    return numpy.split(order, steps)
