"""Pythons are found on PATH and under pyenv, and each is asked what it is."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rnnbench.builds import interpreters
from rnnbench.builds.interpreters import find, how_to_get, is_version


def program(path: Path, answer: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{answer}\n")
    path.chmod(0o755)
    return path


def pyenv_with(folder: Path, *versions: str) -> Path:
    """A made-up pyenv on a PATH of its own; returns that PATH."""
    program(folder / "bin" / "pyenv", f"echo {folder / 'root'}")
    for version in versions:
        program(folder / "root" / "versions" / version / "bin" / "python", f"echo {version}")
    return folder / "bin"


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither this interpreter nor uv's answer for another one."""
    monkeypatch.setattr(interpreters, "uv_program", lambda: "/nowhere/uv")
    interpreters._find.cache_clear()


def test_the_running_one_comes_first() -> None:
    version = "{}.{}".format(*sys.version_info)
    found = find(version)
    assert found is not None
    assert found == Path(sys._base_executable)  # type: ignore[attr-defined]


def test_one_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = program(tmp_path / "python3.5", "echo 3.5.9")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find("3.5") == find("3.5.9") == python
    assert find("3.5.8") is None


def test_a_shim_that_does_not_run_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shims, other = tmp_path / "shims", tmp_path / "other"
    program(shims / "python3.5", "echo 'command not found' >&2; exit 127")
    wrong = program(tmp_path / "wrong" / "python3.5", "echo 3.50.1")
    python = program(other / "python3.5", "echo 3.5.1")
    monkeypatch.setenv("PATH", f"{shims}:{wrong.parent}:{other}")
    assert find("3.5") == python


def test_pyenv_gives_its_newest_of_that_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = ("3.5.9", "3.5.10", "3.50.0", "3.5.10-debug", "2.5.1")
    monkeypatch.setenv("PATH", f"{pyenv_with(tmp_path, *versions)}:/usr/bin:/bin")
    found = find("3.5")
    assert found is not None
    assert found.parts[-3] == "3.5.10"


def test_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find("3.5") is None
    assert how_to_get("3.6") == "pyenv install 3.6"
    assert how_to_get("3.11") == "pyenv install 3.11 (or: uv python install 3.11)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("3.7", True), ("3.7.16", True), ("python3.7", False), ("3", False), ("/opt/3.7", False)],
)
def test_what_a_version_looks_like(text: str, expected: bool) -> None:
    assert is_version(text) is expected
