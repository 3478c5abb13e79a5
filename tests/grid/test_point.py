"""Names and identities of grid points."""

from __future__ import annotations

import re
from typing import Any

import pytest

from rnnbench.errors import ConfigError
from rnnbench.grid.point import canonical, digest_of, full_identity, name_of, slug

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
    # Another data set than the model's, and a deleted key.
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


CONFIG: dict[str, Any] = {
    "seed": 0,
    "model": {"units": 64, "about": "x", "source": "y", "data": {"source": "kept"}},
    "rnn": {"name": "keras", "requires": []},
    "limits": {"import": 300},
}


def identity(config: dict[str, Any]) -> str:
    return digest_of(full_identity(config, {"worker": "w"}))


def test_documentation_limits_order_and_the_default_precision_do_not_count() -> None:
    assert full_identity(CONFIG, {})["config"] == {
        "model": {"data": {"source": "kept"}, "units": 64},
        "rnn": {"name": "keras"},
        "seed": 0,
    }
    for same in (
        {**CONFIG, "limits": {}, "rnn": {"name": "keras", "about": "other"}},
        {**CONFIG, "precision": "float32"},
        dict(reversed(CONFIG.items())),
    ):
        assert identity(same) == identity(CONFIG)
    assert canonical({"b": 1, "a": [0.1]}) == '{"a":[0.1],"b":1}'


def test_everything_else_counts() -> None:
    digests = {
        identity(CONFIG),
        identity({**CONFIG, "seed": 1}),
        identity({**CONFIG, "precision": "tf32"}),
        *(
            digest_of(full_identity(CONFIG, {key: "other"}))
            for key in ("worker", "build_lock", "dataset_md5")
        ),
    }
    assert len(digests) == 6
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in digests)
