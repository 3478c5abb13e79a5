"""A Keras model computed by Keras in float64, for models that `formulas` does not know."""


def copy_of(model):
    """Returns a copy of `model` in float64 with the same weights, or None if Keras cannot make
    one."""
    try:
        config = _in_float64(model.get_config())
        copied = type(model).from_config(config)
        copied.set_weights(model.get_weights())
    except Exception:  # of any class of a user's own
        return None
    if any(weight.dtype == "float32" for weight in copied.trainable_weights):
        return None
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
