"""The revision that a record names."""

from __future__ import annotations

import subprocess

from rnnbench.running.worker import revision


def git(folder, *arguments):
    author = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run(["git", "-C", folder, *author, *arguments], check=True, capture_output=True)


def test_without_a_commit_with_one_and_edited(tmp_path):
    assert revision(tmp_path).startswith("rnnbench ")
    git(tmp_path, "init")
    (tmp_path / "a.py").write_text("1")
    assert revision(tmp_path).startswith("rnnbench ")  # a repository that does not track the file
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "one")
    commit = revision(tmp_path)
    assert len(commit) == 40
    (tmp_path / "a.py").write_text("2")
    assert revision(tmp_path) == f"{commit}-edited"
