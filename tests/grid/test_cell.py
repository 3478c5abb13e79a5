from __future__ import annotations

import pytest

from rnnbench.errors import ConfigError
from rnnbench.grid.point import name_of, slug

CHOICES = {
    "model": "digits_rnn",
    "cell": "lstm",
    "rnn": "keras",
    "device": "cpu_1",
    "build": "current",
}


def test_a_name_is_choices_then_sorted_overrides_then_alias_seed_and_repeat() -> None:
    overrides = {"model.units": 512, "model.batch": 64}
    name = name_of(CHOICES, overrides, 0, 2, "again")
    assert name == "digits_rnn-lstm-keras-cpu_1-current-batch64-units512-as_again-s0-r2"


def test_the_name_contains_another_dataset_and_a_deleted_key() -> None:
    name = name_of({**CHOICES, "dataset": "mnist"}, {"~model.units": None}, 1, 0, None)
    assert name == "digits_rnn-lstm-keras-cpu_1-current-mnist-no_units-s1-r0"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.001, "0.001"),
        (1e-5, "1e-05"),
        (True, "true"),
        (None, "null"),
        ([1, 2, 3], "1x2x3"),
        ([], "empty"),
        ({"a": 1}, "a1"),
        ("", "empty"),
        ("/home/me/ä b,c.npz", "_home_me_b_c.npz"),
        (-3, "-3"),
    ],
)
def test_values_are_safe_in_file_names(value: object, text: str) -> None:
    assert slug(value) == text


def test_a_name_longer_than_200_characters_is_rejected() -> None:
    with pytest.raises(ConfigError, match=r"at most 200.*Fix: put long values"):
        name_of(CHOICES, {"model.x": "y" * 200}, 0, 0, None)
