"""A model as the function of a Python file, without a YAML file."""

from __future__ import annotations

from pathlib import Path

import pytest

from rnnbench.commands.show import compare, of_a_model
from rnnbench.errors import ConfigError
from rnnbench.grid.files import name_of_choice
from tests.conftest import ROOT
from tests.grid.conftest import Expand


@pytest.fixture
def file(tmp_path: Path) -> Path:
    text = "def build(): ...\ndef small(keras, config): ...\ndef four(a, b, c, d): ...\n"
    (tmp_path / "net.py").write_text(text)
    return tmp_path / "net.py"


def test_it_is_a_choice_with_the_cell_and_the_data_of_its_own(expanded: Expand, file: Path) -> None:
    names = f"{file},{file}:small"
    points = expanded(f"model={names} dataset.path={ROOT}/data/x.npz rnn=keras,block")
    found = {point.choices["model"]: point.config for point in points}
    assert set(found) == {"net", "net_small"}
    assert found["net_small"]["model"]["function"] == f"{file}:small"
    assert found["net"]["cell"]["name"] == "of_model"
    assert found["net"]["dataset"]["name"] == "file"
    assert [point.skip for point in points] == [None] * 4, "block says itself what it lacks"


@pytest.mark.parametrize(
    ("model", "fault"),
    [
        ("{file}:other", "has no function other"),
        ("{file}:four", "four cannot be called with 3 arguments"),
        ("{file}x.py:build", "no such file"),
        ("{file}:build", "dataset.path has no value"),
    ],
)
def test_what_is_wrong_is_said(expanded: Expand, file: Path, model: str, fault: str) -> None:
    data = "" if model.endswith(":build") else f" dataset.path={ROOT}/data/x.npz"
    with pytest.raises(ConfigError, match=fault):
        expanded(f"model={model.format(file=file)}{data}")


def test_the_options_of_compare_are_overrides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    options = {"model": "a/net.py:f", "data": "x.npz", "loss": "mse", "optimizer": "adam"}
    from types import SimpleNamespace

    assert of_a_model(SimpleNamespace(**options)) == [
        *("model=/a/net.py:f", "dataset=file", "dataset.path=/x.npz"),
        *("model.loss=mse", "model.optimizer={name:adam}"),
    ]
    assert of_a_model(SimpleNamespace(**dict.fromkeys(options))) == []
    assert name_of_choice(Path("/a/net.py:f")) == "net_f"


def test_the_help_of_compare_names_them(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        compare(["--help"])
    assert "--model FILE.py:FUNCTION" in capsys.readouterr().out
