from __future__ import annotations

from typing import Any

import pytest

from rnnbench.errors import ConfigError
from rnnbench.grid.requirements import unmet

GPU = {"key": "device.kind", "in": ["gpu"], "why": "cuDNN runs on NVIDIA GPUs only"}


def config(kind: str, *requires: Any) -> dict[str, Any]:
    groups: dict[str, Any] = {group: {"name": "x"} for group in ("model", "cell", "build")}
    return {
        **groups,
        "dataset": {"name": "x"},
        "rnn": {"name": "cudnn", "requires": list(requires)},
        "device": {"name": "d", "kind": kind},
    }


def test_an_unmet_requirement_gives_its_reason() -> None:
    assert unmet(config("cpu", GPU)) == "cuDNN runs on NVIDIA GPUs only"
    assert unmet(config("gpu", GPU)) is None
    assert unmet(config("cpu")) is None


def test_the_first_of_two_reasons_is_given() -> None:
    assert unmet(config("cpu", {**GPU, "why": "first"}, GPU)) == "first"


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            {"key": "device.kind", "in": ["gpu"]},
            "rnn=cudnn: requires: .0.: Object missing required field `why`",
        ),
        ({**GPU, "when": ["build.name"]}, "rnn=cudnn: requires: .0..when: Expected `object"),
        ({**GPU, "when": {"build.lock": ["x"]}}, "build=x does not set it"),
        ({**GPU, "key": "model.recurrent"}, "model=x does not set it.*add recurrent to model=x"),
    ],
)
def test_an_invalid_requirement_is_an_error(entry: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        unmet(config("cpu", entry))


def test_with_null_in_the_list_the_key_may_be_absent() -> None:
    entry = {"key": "model.recurrent_dropout", "in": [0.0, None], "why": "has none"}
    assert unmet(config("cpu", entry)) is None
    for value, why in ((0.0, None), (0.2, "has none")):
        with_dropout = config("cpu", entry)
        with_dropout["model"]["recurrent_dropout"] = value
        assert unmet(with_dropout) == why


def test_when_limits_a_requirement_to_some_configs() -> None:
    for build, why in (("x", GPU["why"]), ("y", None)):
        assert unmet(config("cpu", {**GPU, "when": {"build.name": [build]}})) == why
