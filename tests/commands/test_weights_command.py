"""``rnnbench weights`` is `rnnweights` with the Python of a build."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rnnbench import cli
from rnnbench.running import in_build
from rnnweights.tensorflow_files import TABLE

OWN_BUILD = """\
about: A build of this project.
framework: keras3_torch
lock: keras3_torch
python: "3.11"
"""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, Any]]:
    """The builds that were asked about a file."""
    builds: list[Mapping[str, Any]] = []

    def ask(action: str, *, build: Mapping[str, Any], **question: Any) -> Any:
        builds.append(build)
        answer = {"keys": ["lstm/kernel", "lstm/recurrent_kernel", "lstm/bias"]}
        shapes = ((3, 20), (5, 20), (20,))
        arrays = {str(number): np.ones(shape) for number, shape in enumerate(shapes)}
        return answer, arrays

    monkeypatch.setattr(in_build, "ask", ask)
    return builds


@pytest.mark.parametrize("by_option", [False, True])
def test_a_build_of_the_projects_own_is_found(
    by_option: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[Any]
) -> None:
    """Its folder is named in ``config/config.yaml``, or by ``--conf``."""
    (tmp_path / "own/build").mkdir(parents=True)
    (tmp_path / "own/build/mine.yaml").write_text(OWN_BUILD)
    if not by_option:
        (tmp_path / "config").mkdir()
        (tmp_path / "config/config.yaml").write_text("conf: own\n")
    (tmp_path / "x.ckpt").write_bytes(TABLE)  # which only TensorFlow reads
    monkeypatch.chdir(tmp_path)
    command = ["weights", "x.ckpt", "--to", "keras", "-o", "y.npz", "--build", "mine"]
    assert cli.main([*command, *(["--conf", "own"] if by_option else [])]) == 0
    assert [(build.name, build.framework) for build in asked] == [("mine", "keras3_torch")]


def test_a_build_that_does_not_exist_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[Any], capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["weights", "x.ckpt", "--to", "keras", "-o", "y.npz", "--build", "mine"]
    assert cli.main(command) == 2
    assert "build=mine is not a choice" in capsys.readouterr().err and asked == []
