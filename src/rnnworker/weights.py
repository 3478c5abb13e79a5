"""What the first steps of a training change in each weight, in two implementations from the same
weights on the same batches.

A weight is an array of a layer. Its change is compared on the scale of the largest one in the
array. How much two trainings of one function may differ, a training says itself: it is repeated
from weights that were each changed in their last place, and what that changes is its noise.
"""

from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence

import numpy

from rnnworker.canonical_weights import Weights
from rnnworker.differences import INCOMPARABLE
from rnnworker.json_types import Json
from rnnworker.precision import LAST_PLACE, NOISES, NOT_FINITE

ROUNDINGS = 8  # of a weight that each step adds to; each is half a unit in its last place


class Worst(NamedTuple):
    """`difference` and `noise` of the `array` (LAYER/NAME) that is farthest from what its noise
    explains, relative to the largest change in it."""

    difference: float
    noise: float
    array: Optional[str]


class Changes:
    """The weights `before` and `after` a training, {array: values} for each of the `layers` of a
    session, and which arrays are `trained`: {array: bool} for each of them."""

    def __init__(
        self,
        layers: Sequence[Json],
        trained: Sequence[Mapping[str, bool]],
        before: Weights,
        after: Weights,
    ) -> None:
        self.names: List[str] = [layer["name"] for layer in layers]
        self.trained = trained
        self.before = before
        self.changes = _changes(before, after)
        self.noise: List[Dict[str, float]] = []

    def with_noise(self, before: Weights, after: Weights) -> "Changes":
        """Itself with the noise: how the changes differ in another training of it."""
        self.noise = []
        for ours, theirs in zip(self.changes, _changes(before, after)):
            noise = {name: _largest(ours[name] - theirs[name]) for name in ours}
            self.noise.append({name: explained(value) for name, value in noise.items()})
        return self


def worst(first: Changes, second: Changes, tolerance: float) -> Worst:
    """The `Worst` of two `Changes`, beside a `tolerance` of differences. Raises ValueError if they
    train other arrays."""
    if len(first.changes) != len(second.changes):
        fault = "they have {} and {} layers with weights"
        raise ValueError(fault.format(len(first.changes), len(second.changes)))
    found = Worst(0.0, 0.0, None)
    largest = 0.0
    for number, layer in enumerate(first.names):
        ours = first.changes[number]
        theirs = second.changes[number]
        for name in sorted(set(ours) | set(theirs)):
            array = "{}/{}".format(layer, name)
            if name not in ours or name not in theirs or ours[name].shape != theirs[name].shape:
                return Worst(INCOMPARABLE, 0.0, array)
            flags = (first.trained[number][name], second.trained[number][name])
            if flags[0] != flags[1]:
                raise ValueError("{} is trained in one of them only".format(array))
            rounding = ROUNDINGS * LAST_PLACE["float32"] * _largest(first.before[number][name])
            scale = _largest(ours[name])
            off = max(_largest(ours[name] - theirs[name]) - rounding, 0.0)
            noise = max(first.noise[number][name], second.noise[number][name])
            each = Worst(_relative(off, scale), _relative(noise, scale), array)
            excess = each.difference / max(tolerance, NOISES * each.noise)
            if excess >= largest:
                largest = excess
                found = each
    return found


def disturbed(weights: Weights, seed: int, last_place: float) -> Weights:
    """`weights`, each value changed in its last place, up or down at random. `last_place`: of the
    numbers that are computed with (`precision.LAST_PLACE`)."""
    stream = numpy.random.RandomState(seed % 2**32)
    changed = []
    for arrays in weights:
        layer = {}
        for name in sorted(arrays):
            array = numpy.asarray(arrays[name])
            if array.dtype.kind == "f":
                signs = stream.choice((-1.0, 1.0), size=array.shape)
                array = (array * (1.0 + signs * last_place)).astype(array.dtype)
            layer[name] = array
        changed.append(layer)
    return changed


def _changes(before: Weights, after: Weights) -> Weights:
    found = []
    for old, new in zip(before, after):
        found.append({name: _double(new[name]) - _double(old[name]) for name in old})
    return found


def explained(noise: float) -> float:
    """`noise`, or 0 if it is not finite: a training that fails explains no difference."""
    return noise if numpy.isfinite(noise) and noise < NOT_FINITE else 0.0


def _double(array: numpy.ndarray) -> numpy.ndarray:
    return numpy.asarray(array, "float64")


def _largest(array: numpy.ndarray) -> float:
    return float(numpy.abs(array).max()) if numpy.size(array) else 0.0


def _relative(value: float, scale: float) -> float:
    if not value:
        return 0.0
    if not numpy.isfinite(value):
        return NOT_FINITE
    return min(value / scale, INCOMPARABLE) if scale else INCOMPARABLE
