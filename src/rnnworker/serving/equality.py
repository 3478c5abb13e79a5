"""Whether a runtime's answers are those of the model: bounds, and differences from them."""

import numpy

OF_SPREAD = 1e-4  # of what the outputs differ by between samples
OF_ROUNDING = 8  # times the rounding of Keras itself in float32, or of weights and inputs


class NothingToSee(ValueError):
    """All samples have the same outputs, so that a wrong answer would not show."""


def spread_of(output):
    """Returns how far the outputs of different samples are apart: the standard deviation between
    samples, as root mean square over the elements. A single sample: between its elements."""
    output = numpy.asarray(output, "float64")
    axis = 0 if len(output) > 1 else None
    spread = float(numpy.sqrt(numpy.mean(numpy.var(output, axis=axis))))
    if not spread > 0:
        raise NothingToSee(
            "all samples have the same outputs, or outputs that are not finite: give others"
        )
    return spread


def difference(found, expected):
    """Returns max |found − expected|; None for another shape, infinity for what is not finite."""
    found = numpy.asarray(found)
    expected = numpy.asarray(expected)
    if found.shape != expected.shape:
        return None
    if not found.size:
        return 0.0
    worst = float(numpy.abs(found.astype("float64") - expected).max())
    if not numpy.isfinite(worst):
        return float("inf")
    return worst


def bounds_of(expected, of_keras):
    """Returns the largest difference that counts as equal, for each output.

    - `expected`: the outputs of the largest batch in float64.
    - `of_keras`: for each output, the largest difference of Keras in float32 in any case.
    """
    found = []
    for output, rounding in zip(expected, of_keras):
        found.append(max(OF_SPREAD * spread_of(output), OF_ROUNDING * rounding))
    return found


def lower_bounds_of(expected, roundings, bounds):
    """Returns the largest difference that rounding to a lower precision explains, for each output.

    - `expected`: the outputs of the largest batch in float64; a difference as large as their spread
      is another function, whatever rounding does.
    - `roundings`: for each output, the largest difference of the model with rounded weights and
      inputs in any case.
    - `bounds`: those of `bounds_of`.
    """
    found = []
    for output, rounding, bound in zip(expected, roundings, bounds):
        found.append(max(bound, min(OF_ROUNDING * rounding, spread_of(output))))
    return found
