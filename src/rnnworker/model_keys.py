"""Which keys of a model's YAML its code reads: a key that no code reads would be ignored."""

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


class Recorded(dict):
    """A model's settings, which record the keys that are read."""

    keys_read = frozenset()

    def __getitem__(self, key):
        self._note([key])
        return super().__getitem__(key)

    def get(self, key, default=None):
        self._note([key])
        return super().get(key, default)

    def __contains__(self, key):
        self._note([key])
        return super().__contains__(key)

    def __iter__(self):
        self._note(super().keys())
        return super().__iter__()

    def keys(self):
        self._note(super().keys())
        return super().keys()

    def items(self):
        self._note(super().keys())
        return super().items()

    def values(self):
        self._note(super().keys())
        return super().values()

    def _note(self, keys):
        if isinstance(self.keys_read, set):
            self.keys_read.update(keys)


def recorded(config, reader):
    """`config` for the function `reader` of a model, whose reading of ``config["model"]`` is
    recorded."""
    # Before Python 3.8, ``dict(settings)`` copies a subclass without calling its methods.
    if sys.version_info < (3, 8):
        return config
    settings = Recorded(config["model"])
    settings.keys_read = _read.setdefault(reader, set())
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
