"""A Keras model computed by Keras in float64, for models that `formulas` does not know."""

from rnnserve.refusals import first_words


class NoCopy(ValueError):
    """Keras cannot make the copy; the message says why."""


def copy_of(model):
    """Returns a copy of `model` in float64 with the same weights. Raises `NoCopy`."""
    try:
        config = _in_float64(model.get_config())
        copied = type(model).from_config(config)
        copied.set_weights(model.get_weights())
    except Exception as error:  # of any class of a user's own
        raise NoCopy("no copy in float64: {}".format(first_words(error))) from error
    for weight in copied.trainable_weights:
        if weight.dtype == "float32":
            raise NoCopy("{} stays in float32".format(weight.path))
    return copied


def _in_float64(value):
    """A config with float64 wherever a policy or an input has float32."""
    if isinstance(value, dict):
        found = {}
        for name, each in value.items():
            if name in ("dtype", "name") and each == "float32":
                found[name] = "float64"
            else:
                found[name] = _in_float64(each)
        return found
    if isinstance(value, (list, tuple)):
        return type(value)(_in_float64(each) for each in value)
    return value
