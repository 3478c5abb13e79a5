"""Which keys of a model's YAML its code reads: a key that no code reads would be ignored."""

import collections.abc
import sys

from rnnworker.arguments import Refusal

# Keys that rnnbench reads itself.
OWN = (
    "name",
    "about",
    "source",
    "requires",
    "defaults",
    "function",
    "data",
    "batch",
    "epochs",
    "optimizer",
    "loss",
    "metrics",
    "recurrent",
    "arrays",
    "train_samples",
    "val_samples",
    "class_weight",
)
FIT = (
    "callbacks",
    "shuffle",
    "validation_split",
    "validation_data",
    "validation_steps",
    "validation_batch_size",
    "validation_freq",
    "steps_per_epoch",
    "initial_epoch",
    "verbose",
    "workers",
    "use_multiprocessing",
    "max_queue_size",
    "batch_size",
)
HINTS = {
    "callbacks": "; all runs that are compared take the same steps, so no callback may stop or "
    "change them",
    "sample_weight": "; write the arrays sample_weight_train and sample_weight_val beside x_train",
}
COMPILE = ("loss_weights", "weighted_metrics", "run_eagerly", "steps_per_execution", "jit_compile")

_read = {}  # function of the model (prepare, build, augment) → the keys that it has read


class Recorded(collections.abc.Mapping, dict):
    """A model's settings, which add the keys that are read to `keys_read`. All methods of a mapping
    use the two here."""

    def __init__(self, settings, keys_read):
        dict.__init__(self, settings)
        self.keys_read = keys_read

    def __getitem__(self, key):
        self.keys_read.add(key)
        return dict.__getitem__(self, key)

    def __iter__(self):
        for key in dict.__iter__(self):
            self.keys_read.add(key)
            yield key

    __len__ = dict.__len__


def recorded(config, reader):
    """`config` for the function `reader` of a model, whose reading of ``config["model"]`` is
    recorded."""
    # Before Python 3.8, ``dict(settings)`` copies a subclass without calling its methods.
    if sys.version_info < (3, 8):
        return config
    settings = Recorded(config["model"], _read.setdefault(reader, set()))
    return dict(config, model=settings)


def check(config):
    """Raises `Refusal` for a key of the model's YAML that none of its functions has read. They must
    all have been called."""
    if not {"prepare", "build"} <= set(_read):
        return
    read = set(OWN)
    for keys in _read.values():
        read |= keys
    for key in config["model"]:
        if key in read:
            continue
        name = config["model"].get("name") or config["model"]["function"]
        fault = "model={} has the key {}, which none of its functions reads".format(name, key)
        fault += HINTS.get(key, "")
        for method, arguments in (("fit", FIT), ("compile", COMPILE)):
            if key in arguments:
                fault += "; rnnbench passes no {} to Keras's {}".format(key, method)
        raise Refusal(fault + ": remove it")
