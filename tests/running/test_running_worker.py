"""The environment of a worker's process."""

from __future__ import annotations

import os
import subprocess

from rnnbench.running.worker import revision
from rnnworker.workers import environment_of


def test_the_worker_environment_lacks_variables_that_would_interfere(monkeypatch) -> None:
    threads = ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "GOTO")
    ours = {
        **{"HOME": "/home/me", "PATH": "/bin", "PYTHONHOME": "/ours", "VIRTUAL_ENV": "/ours"},
        **{f"{name}_NUM_THREADS": "8" for name in threads},
        **{"PYTHONPATH": "/ours", "VECLIB_MAXIMUM_THREADS": "8", "SNAKEMAKE_PROFILE": "x"},
        **{"MLFLOW_TRACKING_URI": "http://somewhere", "MLFLOW_RUN_ID": "1"},
        "TF2_BEHAVIOR": "1",  # by a notebook that has imported TensorFlow 2
    }
    monkeypatch.setattr(os, "environ", ours)
    kept = {"HOME": "/home/me", "OMP_NUM_THREADS": "2", "PYTHONUNBUFFERED": "1"}
    config = {"build": {"environment": {"TF_FLAG": True, "PATH": "/theirs"}}}
    expected = {**kept, "PATH": "/theirs", "TF_FLAG": "1"}
    assert environment_of(config, 2) == expected
    assert ours["PATH"] == "/bin"
    # A build may set what was removed.
    config = {"build": {"environment": {"PYTHONPATH": "/theirs", "OMP_NUM_THREADS": 7}}}
    expected = {**kept, "PATH": "/bin", "PYTHONPATH": "/theirs", "OMP_NUM_THREADS": "7"}
    assert environment_of(config, 2) == expected


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
