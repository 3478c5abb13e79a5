from __future__ import annotations

from typing import Any

import pytest

from rnnbench.errors import ConfigError
from rnnbench.grid.overrides import Change, apply_changes

CONFIG: dict[str, Any] = {
    "model": {"units": 64, "rate": 0.5, "loss": "mse", "optimizer": {"name": "adam"}},
    "build": {"python": None, "environment": {}},
    "dataset": {"path": "???"},
}


def apply(key: str, value: Any = None, mode: str = "") -> tuple[Any, dict[str, Any]]:
    return apply_changes(CONFIG, [Change(key, mode, value, "here")])


def test_a_change_copies_only_its_path() -> None:
    config, differing = apply("model.units", 128)
    assert config["model"]["units"] == 128
    assert CONFIG["model"]["units"] == 64
    assert config["build"] is CONFIG["build"]
    assert differing == {"model.units": 128}


@pytest.mark.parametrize(("key", "value"), [("model.units", 64), ("build.python", None)])
def test_the_default_value_is_not_an_override(key: str, value: Any) -> None:
    assert apply(key, value) == (CONFIG, {})


def test_an_integer_becomes_a_float_if_the_default_is_one() -> None:
    assert apply("model.rate", 1)[1] == {"model.rate": 1.0}
    assert repr(apply("model.rate", 1)[1]["model.rate"]) == "1.0"


def test_a_dict_is_merged_key_by_key() -> None:
    config, differing = apply("model", {"units": 8, "optimizer": {"name": "sgd"}})
    assert differing == {"model.units": 8, "model.optimizer.name": "sgd"}
    assert config["model"]["loss"] == "mse"


def test_adding_and_deleting() -> None:
    assert apply("build.environment.TF_X", "1", "+")[0]["build"]["environment"] == {"TF_X": "1"}
    assert apply("model.units", 3, "++")[1] == {"model.units": 3}
    config, differing = apply("model.loss", None, "~")
    assert "loss" not in config["model"]
    assert differing == {"~model.loss": None}


@pytest.mark.parametrize(
    ("key", "mode", "value", "message"),
    [
        ("model.unist", "", 3, "model.unist is not a key.*did you mean model.units"),
        ("modle.units", "", 3, "did you mean model.units"),
        ("zzz", "", 3, r"write \+zzz=VALUE"),
        ("model.units", "+", 3, "exists already.*model.units=VALUE"),
        ("model.units.deep", "+", 3, "model.units is an integer and has no keys"),
        ("model.x", "~", None, "not a key"),
        ("model.units", "~", 3, "whose value is 64"),
        ("model.units", "", "abc", "is a string; it must be an integer"),
        ("model.units", "", True, "is true or false; it must be an integer"),
        ("model.loss", "", 3, "put the value in quotes"),
        ("model.rate", "", float("nan"), "not finite"),
        ("model", "", 3, "it must be a section"),
    ],
)
def test_an_invalid_override_is_an_error(key: str, mode: str, value: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        apply(key, value, mode)
