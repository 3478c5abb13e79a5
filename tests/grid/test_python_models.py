"""A model as the function of a Python file, without a YAML file."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from rnnbench.commands.compare import compare
from rnnbench.commands.question import of_a_model
from rnnbench.errors import ConfigError
from rnnbench.grid.files import name_of_choice, user_files
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


def test_a_function_may_not_have_the_name_of_another_model(
    expanded: Expand, file: Path, tmp_path: Path
) -> None:
    shipped = tmp_path / "digits_rnn.py"
    shipped.write_text(file.read_text())
    data = f"dataset.path={ROOT}/data/x.npz"
    with pytest.raises(ConfigError, match=r"digits_rnn.py has the same name as .*digits_rnn.yaml"):
        expanded(f"model={shipped} {data}")
    (point,) = expanded(f"model={shipped}:small {data}")
    assert point.choices["model"] == "digits_rnn_small"


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
    options["loss"] = "a/net.py:loss"
    assert "model.loss=/a/net.py:loss" in of_a_model(SimpleNamespace(**options))
    assert of_a_model(SimpleNamespace(**dict.fromkeys(options))) == []
    assert name_of_choice(Path("/a/net.py:f")) == "net_f"


def test_the_help_of_compare_names_them(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        compare(["--help"])
    assert "--model FILE.py:FUNCTION" in capsys.readouterr().out


def test_a_saved_model_is_a_choice_by_its_bytes(expanded: Expand, tmp_path: Path) -> None:
    saved = tmp_path / "mine.keras"
    data = f"dataset.path={ROOT}/data/x.npz"
    digests = set()
    for content in (b"one", b"two"):
        saved.write_bytes(content)
        (point,) = expanded(f"model={saved} {data}")
        assert point.choices["model"] == "mine"
        assert user_files(point.config) == {saved}
        digests.add(point.config["model"]["md5"])
    assert digests == {hashlib.md5(content).hexdigest() for content in (b"one", b"two")}
    with pytest.raises(ConfigError, match="no such file"):
        expanded(f"model={tmp_path}/other.keras {data}")


def test_a_loss_may_be_a_function_of_two_arguments(expanded: Expand, file: Path) -> None:
    training = f"model={file} dataset.path={ROOT}/data/x.npz model.optimizer={{name:adam}}"
    file.write_text(f"{file.read_text()}def loss(y, predicted): ...\ndef one(y): ...\n")
    (point,) = expanded(f"{training} model.loss={file}:loss model.class_weight={{0:1,1:4}}")
    assert point.config["model"]["loss"] == f"{file}:loss"
    assert point.config["model"]["class_weight"] == {"0": 1, "1": 4}
    for loss, fault in {
        f"{file}:none": "has no function none",
        f"{file}:one": "one cannot be called with 2 arguments",
        "msee": "msee",
    }.items():
        with pytest.raises(ConfigError, match=fault):
            expanded(f"{training} model.loss={loss}")
    for weights, fault in {"{0:-1}": "must be a number ≥ 0", "{a:1}": "has the class a"}.items():
        with pytest.raises(ConfigError, match=fault):
            expanded(f"{training} model.loss=mse model.class_weight={weights}")


@pytest.mark.parametrize("plus", ["", "+"])
def test_a_key_inside_one_that_is_null_is_set_by_the_whole(
    expanded: Expand, file: Path, plus: str
) -> None:
    line = f"model={file} dataset.path={ROOT}/data/x.npz model.loss=mse"
    with pytest.raises(ConfigError, match=r"Fix: write model.optimizer=\{name:VALUE\}"):
        expanded(f"{line} {plus}model.optimizer.name=adam")
    (point,) = expanded(f"{line} model.optimizer={{name:adam}}")
    assert point.config["model"]["optimizer"] == {"name": "adam"}
