"""What the first steps of a training change in each weight: differences, noise, what is trained."""

from __future__ import annotations

import numpy as np
import pytest

from rnnworker import weights
from rnnworker.differences import INCOMPARABLE
from rnnworker.precision import NOT_FINITE

LAYERS = [{"name": "lstm"}, {"name": "dense"}]
TRAINED = [{"kernel": True}, {"kernel": True}]
BEFORE = [{"kernel": np.ones((2, 3), "float32")}, {"kernel": np.ones((3, 1), "float32")}]


def changes(lstm, dense, noise=0.0, trained=TRAINED) -> weights.Changes:
    """The changes of a training that adds `lstm` and `dense` to the weights, and of another one
    that adds `noise` more to those of the LSTM."""

    def after(first):
        return [{"kernel": BEFORE[0]["kernel"] + first}, {"kernel": BEFORE[1]["kernel"] + dense}]

    found = weights.Changes(LAYERS, trained, BEFORE, after(lstm))
    return found.with_noise(BEFORE, after(lstm + noise))


def test_the_array_that_is_farthest_from_its_noise_is_named() -> None:
    reference = changes(0.1, 0.1, noise=0.001)
    worst = weights.worst(reference, changes(0.102, 0.101), 1e-4)
    # 2 % with a noise of 1 % against 1 % without noise
    assert worst.array == "dense/kernel" and worst.difference == pytest.approx(0.01, rel=1e-2)
    assert worst.noise == 0.0
    alone = weights.worst(reference, changes(0.102, 0.1), 1e-4)
    assert alone.array == "lstm/kernel" and alone.noise == pytest.approx(0.01, rel=1e-2)


def test_equal_trainings_and_roundings_differ_by_nothing() -> None:
    reference = changes(0.1, 0.1)
    assert weights.worst(reference, changes(0.1, 0.1), 1e-4).difference == 0
    assert weights.worst(reference, changes(0.1 + 3e-7, 0.1), 1e-4).difference == 0


@pytest.mark.parametrize("noise", [np.nan, np.inf])
def test_a_disturbed_training_that_fails_explains_nothing(noise: float) -> None:
    worst = weights.worst(changes(0.1, 0.1, noise), changes(0.2, 0.1), 1e-4)
    assert (worst.array, worst.noise) == ("lstm/kernel", 0.0)
    assert worst.difference == pytest.approx(1, rel=1e-3)


def test_what_cannot_be_compared_is_never_equal() -> None:
    reference = changes(0.1, 0.1)
    assert weights.worst(reference, changes(np.nan, 0.1), 1e-4).difference == NOT_FINITE
    assert weights.worst(changes(0.0, 0.1), changes(0.1, 0.1), 1e-4).difference == INCOMPARABLE
    other = changes(0.1, 0.1)
    other.changes[0] = {"bias": np.ones(3)}
    assert weights.worst(reference, other, 1e-4).difference == INCOMPARABLE
    frozen = changes(0.1, 0.1, trained=[{"kernel": False}, {"kernel": True}])
    with pytest.raises(ValueError, match="lstm/kernel is trained in one of them only"):
        weights.worst(reference, frozen, 1e-4)


def test_each_value_is_disturbed_in_its_last_place() -> None:
    last = 2.0**-23
    found = weights.disturbed(BEFORE, 3, last)[0]["kernel"]
    assert found.dtype == np.float32 and (np.abs(found - 1) == last).all()
    assert len({float(value) for value in found.ravel()}) == 2
