"""A model with weights and inputs that are rounded to a lower precision."""

import numpy

LEVELS = 127  # of int8 on each side of zero


def rounded(array, precision):
    """Returns `array` rounded to a precision of `rnnserve.PRECISIONS`, in its own type. ``int8``:
    one scale for the whole array."""
    array = numpy.asarray(array)
    if precision == "int8":
        scale = float(numpy.abs(array).max(initial=0.0)) / LEVELS
        if not scale:
            return array
        return (numpy.round(array / scale) * scale).astype(array.dtype)
    kind = precision
    if precision == "bfloat16":
        import ml_dtypes  # which TensorFlow needs, too

        kind = ml_dtypes.bfloat16
    return array.astype(kind).astype(array.dtype)


def rounded_weights(model, precision):
    """Returns the model's weights, rounded; 8 bits are for matrices, not for biases."""
    found = []
    for variable in model.weights:
        array = numpy.asarray(variable)
        is_bias = variable.path.rpartition("/")[2] == "bias"
        if array.dtype.kind == "f" and not (precision == "int8" and (array.ndim < 2 or is_bias)):
            array = rounded(array, precision)
        found.append(array)
    return found


def rounded_inputs(arrays, precision, mask_values):
    """Returns inputs, rounded; a value that masks a step stays.

    `mask_values`: number of an input → the value, as in `cases.mask_values`.
    """
    found = []
    for number, array in enumerate(arrays):
        if array.dtype.kind == "f":
            coarse = rounded(array, precision)
            if number in mask_values:
                coarse = numpy.where(array == mask_values[number], array, coarse)
            array = coarse
        found.append(array)
    return found
