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


def test_keras_3_gets_a_schedule_for_decay() -> None:
    assert optimizers.for_keras_3(keras3(), STATED) == (
        "Adam",
        {"learning_rate": ("inverse time", 0.001, 1, 1e-5), "epsilon": 1e-8},
    )


def test_without_decay_the_rate_is_a_number() -> None:
    for stated in ({"name": "sgd", "learning_rate": 0.1}, {"name": "sgd", "decay": 0.0}):
        name, settings = optimizers.for_keras_3(keras3(), stated)
        assert name == "SGD"
        assert settings == {key: 0.1 for key in stated if key == "learning_rate"}


def test_an_unknown_optimizer_is_an_error() -> None:
    with pytest.raises(ValueError, match="no optimizer 'adma'"):
        optimizers.for_keras_3(keras3(), {"name": "adma"})


def test_keras_2_has_lr_and_decay() -> None:
    assert optimizers.for_keras_2(STATED) == (
        "adam",
        {"lr": 0.001, "decay": 1e-5, "epsilon": 1e-8},
    )
    assert optimizers.for_keras_2({"name": "adam"}) == ("adam", {"epsilon": 1e-7})
    assert optimizers.for_keras_2({"name": "sgd"}) == ("sgd", {})


def test_the_stated_settings_are_not_modified() -> None:
    before = dict(STATED)
    optimizers.for_keras_3(keras3(), STATED)
    optimizers.for_keras_2(STATED)
    assert before == STATED
