"""Pythons are found on PATH and in pyenv, and each is run to get its version."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rnnbench.builds import interpreters
from rnnbench.builds.interpreters import find, install_hint, is_version


def program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def pyenv_with(folder: Path, *versions: str) -> Path:
    """A fake pyenv with these versions; returns its folder for PATH."""
    program(folder / "bin" / "pyenv", f"echo {folder / 'root'}")
    for version in versions:
        program(folder / "root" / "versions" / version / "bin" / "python", f"echo {version}")
    return folder / "bin"


@pytest.fixture(autouse=True)
def _no_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disables uv and clears the cache of interpreters."""
    monkeypatch.setattr(interpreters, "uv_program", lambda: "/nowhere/uv")
    interpreters._find.cache_clear()


def test_the_running_interpreter_comes_first() -> None:
    version = "{}.{}".format(*sys.version_info)
    assert find(version) == Path(sys._base_executable)  # type: ignore[attr-defined]


def test_an_interpreter_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = program(tmp_path / "python3.5", "echo 3.5.9")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find("3.5") == find("3.5.9") == python
    assert find("3.5.8") is None


def test_a_shim_that_does_not_run_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shims, other = tmp_path / "shims", tmp_path / "other"
    program(shims / "python3.5", "echo 'command not found' >&2; exit 127")
    wrong = program(tmp_path / "wrong" / "python3.5", "echo 3.50.1")
    python = program(other / "python3.5", "echo 3.5.1")
    monkeypatch.setenv("PATH", f"{shims}:{wrong.parent}:{other}")
    assert find("3.5") == python


def test_the_newest_of_pyenv_is_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    versions = ("3.5.9", "3.5.10", "3.50.0", "3.5.10-debug", "2.5.1")
    monkeypatch.setenv("PATH", f"{pyenv_with(tmp_path, *versions)}:/usr/bin:/bin")
    found = find("3.5")
    assert found is not None
    assert found.parts[-3] == "3.5.10"


def test_a_missing_version_has_an_install_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find("3.5") is None
    assert install_hint("3.6") == "pyenv install 3.6"
    assert install_hint("3.11") == "pyenv install 3.11 (or: uv python install 3.11)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("3.7", True), ("3.7.16", True), ("python3.7", False), ("3", False), ("/opt/3.7", False)],
)
def test_is_version(text: str, expected: bool) -> None:
    assert is_version(text) is expected
