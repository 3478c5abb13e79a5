"""How far arrays are from what they should be: relative errors, and training steps that apply
something other than the gradient of the loss."""

from typing import Any, Dict, Iterable, List, Optional, Sequence

import numpy

from rnnworker.precision import NOT_FINITE

INCOMPARABLE = 1e9
# before − after is exact to half a unit in the last place of the larger value.
ROUNDING = float(numpy.finfo("float32").eps)
SKIPPED = 20  # steps in a row of which the gradient overflowed


Arrays = Dict[str, numpy.ndarray]


def relative_error(values: Any, expected: Any) -> float:
    """Returns max |values − expected| / max |expected| over the whole array: the scale is that of
    the array, because relative errors of single elements near 0 mean nothing. `INCOMPARABLE` is
    the most: the error of other shapes, and of anything where 0 is right. That of what is not
    finite is `NOT_FINITE`."""
    values = numpy.asarray(values, "float64")
    expected = numpy.asarray(expected, "float64")
    if values.shape != expected.shape:
        return INCOMPARABLE
    difference = numpy.abs(values - expected).max()
    scale = numpy.abs(expected).max()
    if not difference:
        return 0.0
    if not numpy.isfinite(difference):
        return NOT_FINITE
    if not scale:
        return INCOMPARABLE
    return float(min(difference / scale, INCOMPARABLE))


def gradient_errors(gradients: Arrays, expected: Arrays) -> List[float]:
    """Returns the relative error of each gradient that is `expected`. The gradient of the inputs
    ``x`` is expected of the first rows, and 0 for the others."""
    wanted = dict(expected)
    wanted["x"] = numpy.zeros_like(gradients["x"], "float64")
    wanted["x"][: len(expected["x"])] = expected["x"]
    return [relative_error(gradients.get(name, 0.0), wanted[name]) for name in wanted]


def differences_of(session: Any, batches: Iterable[Sequence[Any]]) -> List[float]:
    """Compares the steps that a model takes with the gradients of its loss.

    **Arguments:**

    - `session`: was built with `certify.OPTIMIZER`, and its weights are loaded.
    - `batches`: (x, y) or (x, y, weights). Each step starts from the loaded weights.

    **Returns:** the `difference` of each step.
    """
    gradients_of = session.loss_gradients()
    variables = session.model.trainable_weights
    is_constrained = any(getattr(variable, "constraint", None) for variable in variables)
    differences = []
    for samples in batches:
        session.reset()
        gradients = gradients_of(*samples)
        before = session.read(variables)  # a layer may have set weights, as this step will
        session.reset()
        for _ in range(1 + SKIPPED):
            session.train_batch(*samples)
            after = session.read(variables)
            # With float16 the loss is scaled up, and the framework skips a step that overflows.
            if session.precision_facts()["policy"] != "mixed_float16":
                break
            if any((old != new).any() for old, new in zip(before, after)):
                break
        expected = None
        if is_constrained:
            stepped = list(map(numpy.subtract, before, gradients))
            expected = session.constrained(variables, stepped)
        differences.append(difference(before, after, gradients, expected))
    return differences


def draws_anew(session: Any, samples: Sequence[Any], tolerance: float) -> bool:
    """Whether the gradient of the loss differs by more than `tolerance` between two computations
    from the loaded weights on the same `samples`, as it does in a model that draws random numbers
    which no session can set back."""
    gradients_of = session.loss_gradients()
    computed = []
    for repeated in (False, True):
        session.reset()
        if repeated:
            session.draw_others()
        computed.append(gradients_of(*samples))
    return any(error > tolerance for error in map(relative_error, *computed))


def difference(
    before: Sequence[numpy.ndarray],
    after: Sequence[numpy.ndarray],
    gradients: Sequence[numpy.ndarray],
    expected: Optional[Sequence[numpy.ndarray]] = None,
) -> float:
    """Returns the largest max |applied − computed| / max |computed| over all trained variables,
    less what rounding can explain; infinity if a value is not finite.

    **Arguments**, each with one array for each variable:

    - `before`, `after`: its values before and after the step.
    - `gradients`: the computed ones.
    - `expected`: its values after the step, if constraints change ``before − gradients``.
    """
    scales = list(map(_largest, gradients))
    # An array whose gradient is zero is measured on the scale of the others.
    scale_of_all = max(scales, default=0.0) or 1.0
    largest = 0.0
    for number, (old, new) in enumerate(zip(before, after)):
        if expected is None:
            wrong = old - new - gradients[number]
        else:
            wrong = expected[number] - new
        off = _largest(wrong) - ROUNDING * max(_largest(old), _largest(new))
        if not numpy.isfinite(off):
            return float("inf")
        largest = max(largest, off / (scales[number] or scale_of_all))
    return largest


def _largest(array: numpy.ndarray) -> float:
    return float(numpy.abs(array).max())
