from __future__ import annotations

from types import SimpleNamespace

import pytest

from rnnworker import optimizers

STATED = {"name": "adam", "learning_rate": 0.001, "decay": 1e-5, "epsilon": 1e-8}


def keras3() -> SimpleNamespace:
    def schedule(rate, decay_steps, decay_rate):
        return ("inverse time", rate, decay_steps, decay_rate)

    def optimizer(name):
        return lambda **settings: (name, settings)

    schedules = SimpleNamespace(InverseTimeDecay=schedule)
    classes = {name: optimizer(name) for name in ("Adam", "SGD")}
    return SimpleNamespace(optimizers=SimpleNamespace(schedules=schedules, **classes))


@pytest.mark.parametrize(
    ("stated", "made"),
    [
        (STATED, ("Adam", {"learning_rate": ("inverse time", 0.001, 1, 1e-5), "epsilon": 1e-8})),
        ({"name": "sgd", "learning_rate": 0.1}, ("SGD", {"learning_rate": 0.1})),
        ({"name": "sgd", "decay": 0.0}, ("SGD", {})),
    ],
)
def test_keras_3_gets_a_schedule_for_decay(stated: dict, made: tuple) -> None:
    before = dict(stated)
    assert optimizers.for_keras_3(keras3(), stated) == made
    assert stated == before


def test_an_unknown_optimizer_is_an_error() -> None:
    with pytest.raises(ValueError, match="no optimizer 'adma'"):
        optimizers.for_keras_3(keras3(), {"name": "adma"})


@pytest.mark.parametrize(
    ("stated", "made"),
    [
        (STATED, ("adam", {"lr": 0.001, "decay": 1e-5, "epsilon": 1e-8})),
        ({"name": "adam"}, ("adam", {"epsilon": 1e-7})),
        ({"name": "sgd"}, ("sgd", {})),
    ],
)
def test_keras_2_has_lr_and_decay(stated: dict, made: tuple) -> None:
    before = dict(stated)
    assert optimizers.for_keras_2(stated) == made
    assert stated == before
