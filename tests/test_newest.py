"""`.ci/newest`, with a `make` of our own: nothing is installed, and no network is needed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT

MAKE = """#!/bin/sh
echo "make $1"
case $1 in
    "$FAILS") exit 1 ;;
    lock) printf '%s' "$NEWEST" > requirements.lock ;;
esac
"""
LOCK = "numpy==2.0.0 \\\n    --hash=sha256:1\nscipy==1.0.0 \\\n    --hash=sha256:2\n"


@pytest.mark.parametrize(
    ("newest", "fails", "status", "made", "end"),
    [
        (LOCK, "", 0, ["lock"], "requirements.lock has the newest versions already"),
        ("2.1.0", "", 0, ["lock", "check", "test"], "they pass; make lock takes them"),
        ("2.1.0", "check", 1, ["lock", "check", "test"], "  +numpy==2.1.0"),
        ("2.1.0", "test", 1, ["lock", "check", "test"], "  +numpy==2.1.0"),
        ("2.1.0", "lock", 1, ["lock"], "make lock"),
    ],
)
def test_the_newest_versions_are_tried_in_a_clone(
    tmp_path: Path, newest: str, fails: str, status: int, made: list[str], end: str
) -> None:
    project = tmp_path / "project"
    (project / ".ci").mkdir(parents=True)
    shutil.copy(ROOT / ".ci" / "newest", project / ".ci")
    lock = project / "requirements.lock"
    lock.write_text(LOCK)
    for arguments in (["init"], ["add", "."], ["commit", "--message", "first"]):
        as_somebody = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(
            ["git", *as_somebody, *arguments], cwd=project, check=True, capture_output=True
        )

    commands = tmp_path / "commands"
    commands.mkdir()
    make = commands / "make"
    make.write_text(MAKE)
    make.chmod(0o755)
    environment = os.environ | {
        "PATH": f"{commands}:{os.environ['PATH']}",
        "TMPDIR": str(commands),
        "NEWEST": newest if newest == LOCK else LOCK.replace("2.0.0", newest),
        "FAILS": fails or "nothing",
    }
    done = subprocess.run(
        [project / ".ci" / "newest"], env=environment, capture_output=True, text=True
    )
    lines = done.stdout.splitlines()
    assert done.returncode == status, done.stdout + done.stderr
    assert [line for line in lines if line.startswith("make ")] == [f"make {name}" for name in made]
    assert lines[-1].endswith(end)
    if status and fails != "lock":
        assert f"newest: make {fails} failed with the versions marked +:" in lines
    if newest != LOCK:
        assert ("  -numpy==2.0.0" in lines) == (fails != "lock")
    assert "scipy" not in done.stdout
    assert lock.read_text() == LOCK and os.listdir(commands) == ["make"]
