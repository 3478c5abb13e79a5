"""``rnnbench dataset``: names, checks and exit codes."""

from pathlib import Path

import pytest

from rnnbench.commands.machine import dataset as main
from rnnbench.datasets.pins import pinned
from rnnbench.datasets.provide import read_dataset
from tests.conftest import ROOT


@pytest.fixture
def project(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(root)
    monkeypatch.setattr("rnnbench.datasets.provide.to_cache", lambda *_: None)
    choices = root / "conf" / "dataset"
    for name, file in (("digits", "digits.npz"), ("other", "other.txt")):
        content = f"name: {name}\nfile: {file}\npath: data/{file}\nurl: null\n"
        (choices / f"{name}.yaml").write_text(content)
    (choices / "file.yaml").write_text("name: file\nfile: null\npath: ???\n")
    return root


def test_it_provides_and_checks(project: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["digits"]) == 0
    assert main(["--check", "digits"]) == 0
    assert capsys.readouterr().out == "digits: data/digits.npz holds the pinned bytes.\n" * 2
    with (project / "data" / "digits.npz").open("r+b") as file:
        file.seek(1000)
        file.write(b"\xff")
    assert main(["--check", "digits"]) == 1
    assert "`rnnbench dataset digits` sets this file aside" in capsys.readouterr().err
    assert main(["digits"]) == 0
    assert main(["--check", "digits"]) == 0


def test_an_error_does_not_stop_the_other_datasets(
    project: Path, capsys: pytest.CaptureFixture
) -> None:
    assert main(["other", "digits"]) == 1
    out, err = capsys.readouterr()
    assert out == "digits: data/digits.npz holds the pinned bytes.\n"
    assert err.startswith("rnnbench: data/other.txt: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("nmist", "the choices of dataset are digits, file, other;"),
        ("../dataset/digits", "dataset=../dataset/digits is not a choice"),
        ("file", "dataset=file dataset.path=FILE"),
    ],
)
def test_wrong_arguments_exit_with_2(
    name: str, told: str, project: Path, capsys: pytest.CaptureFixture
) -> None:
    assert main([name]) == 2
    err = capsys.readouterr().err
    assert told in err
    assert err.count("\n") == 1


def test_every_dataset_choice_is_pinned() -> None:
    names = {path.stem for path in (ROOT / "conf" / "dataset").glob("*.yaml")}
    names -= {"file", "none"}
    assert {read_dataset(name, ROOT).path for name in names} == set(pinned(ROOT))
