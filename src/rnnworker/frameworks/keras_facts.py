"""Facts about Keras models and their packages that need no session."""

import functools
import sys

from rnnlayers.which_keras import PACKAGES
from rnnworker.options import is_function


def named_loss(loss):
    """The names of a compiled loss, a function, object or name, or a list or dict of them."""
    if isinstance(loss, dict):
        return {name: named_loss(part) for name, part in loss.items()}
    if isinstance(loss, (list, tuple)):
        return [named_loss(part) for part in loss]
    if loss is None or isinstance(loss, str):
        return loss
    return getattr(loss, "name", None) or getattr(loss, "__name__", None) or type(loss).__name__


def attributes(roots, kinds, through):
    """All objects of the `kinds` in attributes of the `roots`, each once: through lists, tuples and
    dicts, and the attributes of objects `through` which it looks."""
    found = []
    seen = set()
    waiting = list(roots)
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, kinds):
            found.append(each)
        if isinstance(each, dict):
            waiting += each.values()
        elif isinstance(each, (list, tuple)):
            waiting += each
        elif isinstance(each, through):
            waiting += vars(each).values()
    return found


def optimizers(keras):
    """Keras's classes of optimizers, those of before Keras 2.11 too."""
    legacy = getattr(keras.optimizers, "legacy", None)
    return (keras.optimizers.Optimizer,) + ((legacy.Optimizer,) if legacy else ())


def of_tensorflow(optimizer):
    """The optimizer of ``tf.train`` inside one of Keras, which hides its variables; else None."""
    return optimizer.optimizer if type(optimizer).__name__ == "TFOptimizer" else None


def settings_of(optimizer):
    """What an `optimizer` states of itself, with the name of its class. One whose schedule is a
    class without ``get_config`` states nothing; then the name of that class is its rate."""
    kind = type(of_tensorflow(optimizer) or optimizer).__name__
    try:
        return dict(optimizer.get_config(), class_name=kind)
    except NotImplementedError:
        inner = getattr(optimizer, "inner_optimizer", optimizer)  # of one that scales the loss
        schedule = getattr(inner, "_learning_rate", None)
        if schedule is None:
            return {"class_name": kind}
        return {"class_name": kind, "learning_rate": {"class_name": type(schedule).__name__}}


def of_keras(kind, name):
    """The method `name` of the class `kind` of models as Keras has it, without an author's own."""
    for base in kind.__mro__:
        if name in vars(base) and base.__module__.partition(".")[0] in PACKAGES:
            return vars(base)[name]
    raise AttributeError("Keras's {} has no {}".format(kind.__name__, name))


def metrics_of(settings):
    """The metrics of a model's YAML; without any, the accuracy of a classification."""
    if settings.get("metrics") is not None:
        return list(settings["metrics"])
    if is_function(settings["loss"]):
        return []
    loss = str(settings["loss"]).lower()
    if "crossentropy" in loss or loss == "bce":
        return ["accuracy"]
    return []


def is_masked(layer):
    """Whether a layer has a mask; None if a subclassed model calls it, which keeps no symbols."""
    try:
        inputs = layer.input
    except AttributeError:
        return None
    if not isinstance(inputs, (list, tuple)):
        inputs = [inputs]
    if not hasattr(layer, "input_mask"):  # Keras 3 lists the mask with the inputs
        return any(tensor.dtype == "bool" for tensor in inputs)
    mask = layer.input_mask
    if len(inputs) > 1:  # initial states, which have no mask
        mask = mask[0]
    return mask is not None


def feeds_on_device(config):
    """Whether a run with `config` gathers its batches on the device (``device.feed``). Augmented
    images are made in the host's memory, and a certificate feeds single batches."""
    if config["device"].get("feed") != "device" or config.get("certifying"):
        return False
    return not config["model"]["data"].get("augment")


@functools.lru_cache(maxsize=None)
def installed():
    """``name==version`` of every installed distribution, sorted, when this was first called."""
    if sys.version_info >= (3, 8):
        from importlib.metadata import distributions

        versions = {}
        for found in distributions():
            name = found.metadata["Name"] or ""
            # Of two distributions with the same name, Python imports the first.
            versions.setdefault(name.lower(), found.version)
    else:
        import pkg_resources

        versions = {d.project_name.lower(): d.version for d in pkg_resources.working_set}
    return sorted("{}=={}".format(name, version) for name, version in versions.items() if name)
