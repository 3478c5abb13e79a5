"""The samples on which implementations are certified."""

import numpy

from rnnworker import data, precision, trees


def samples_of(job):
    """Returns (the arrays of the config's data, the sizes of all batches that runs on the device
    take): [(rows, training)], whole and last batches, with True from the training set and with
    False from the validation set, the largest of the training first."""
    model = job["config"]["model"]
    pinned_md5 = job.get("pinned_md5")
    arrays = data.arrays(job["config"], job["dataset"], pinned_md5)
    sizes = set()
    for settings in job.get("batches") or [{}]:
        batch = settings.get("batch", model["batch"])
        other = {}
        for name in settings:
            if name != "batch" and settings[name] != model.get(name):
                other[name] = settings[name]
        found = arrays
        if other:
            config = dict(job["config"], model=dict(model, **other))
            found = data.arrays(config, job["dataset"], pinned_md5)
        for rows in precision.batch_sizes(trees.rows(found["x_train"]), batch):
            sizes.add((True, rows))
        for rows in precision.batch_sizes(trees.rows(found["x_val"]), batch):
            sizes.add((False, rows))
    ordered = sorted(sizes, reverse=True)
    return arrays, [(rows, training) for training, rows in ordered]


def not_finite(arrays, prepare):
    """Returns a message about the first of the `arrays` with a value that is not finite, or None.
    `prepare`: the function that made them."""
    for name, array in trees.named(arrays):
        has_fractions = numpy.asarray(array).dtype.kind == "f"
        if has_fractions and not numpy.isfinite(array).all():
            return "{} of {} has NaN or infinite values".format(name, prepare)
    return None


def first_batches(arrays, config, steps):
    """Yields the first `steps` training batches, (x, y) or (x, y, weights); repeats the data if
    necessary."""
    samples = data.samples(arrays, "train")
    batch = config["model"]["batch"]
    order = data.epoch_order(config["seed"], 0, trees.rows(samples))
    order = numpy.resize(order, steps * batch)
    for chosen in numpy.split(order, steps):
        yield trees.taken(samples, chosen)
