"""The running Python comes first; uv finds those of PATH and pyenv."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rnnbench.builds import uv
from rnnbench.builds.uv import find, install_hint, is_version


@pytest.fixture(autouse=True)
def _clear() -> None:
    uv._find.cache_clear()


def test_the_running_interpreter_comes_first() -> None:
    version = "{}.{}".format(*sys.version_info)
    assert find(version) == Path(sys._base_executable)  # type: ignore[attr-defined]


def test_uv_searches_path_and_then_pyenv_newest_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "uv"
    program.write_text('#!/bin/sh\nfor last; do :; done\necho "$PATH/$last"\n')
    program.chmod(0o755)
    versions = tmp_path / "root" / "versions"
    for name in ("3.5.9", "3.5.10", "3.50.0", "3.5.10-debug", "2.5.1"):
        (versions / name).mkdir(parents=True)
    monkeypatch.setattr(uv, "uv_program", lambda: str(program))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "root"))
    monkeypatch.setenv("PATH", "/mine")
    pyenv = f"{versions}/3.50.0/bin:{versions}/3.5.10/bin:{versions}/3.5.9/bin"
    assert find("3.5") == Path(f"/mine:{pyenv}/3.5")


def test_a_missing_version_has_an_install_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    assert find("2.6") is None
    assert install_hint("3.6") == "pyenv install 3.6"
    assert install_hint("3.11") == "pyenv install 3.11 (or: uv python install 3.11)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("3.7", True), ("3.7.16", True), ("python3.7", False), ("3", False), ("/opt/3.7", False)],
)
def test_is_version(text: str, expected: bool) -> None:
    assert is_version(text) is expected


def test_a_pyenv_that_may_not_be_read_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "uv"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr(uv, "uv_program", lambda: str(program))
    monkeypatch.setenv("PYENV_ROOT", "/proc/1/fdinfo/none")

    def forbidden(folder: object) -> list[str]:
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr(uv.os, "listdir", forbidden)
    assert find("3.4") is None
