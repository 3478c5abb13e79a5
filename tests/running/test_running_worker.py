"""The environment of a worker's process."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

from rnnbench.running import worker
from rnnbench.running.worker import WorkflowImporters, revision
from rnnworker.forked_workers import FOLDER
from rnnworker.workers import environment_of
from tests.conftest import ROOT


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


def planned(device: str) -> dict:
    """The configuration of a fake run."""
    return {
        "build": {"name": "fake", "framework": "fake"},
        "device": {"name": device, "kind": "cpu", "threads": 1},
        **{"model": {}, "rnn": {"implementation": "fake"}, "dataset": {"path": None}},
        **{"seed": 0, "repeat": 0, "measure": {}},
    }


def test_sockets_are_made_below_a_temporary_folder_with_a_long_path(
    tmp_path, monkeypatch, capsys
) -> None:
    config = planned("cpu_1")
    long = tmp_path / ("x" * 90)
    long.mkdir()
    monkeypatch.setattr(worker.tempfile, "tempdir", str(long))
    importers = WorkflowImporters([config], ROOT)
    try:
        folder = Path(os.environ[FOLDER])
        (path,) = folder.glob("?" * 16)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
            client.connect(str(path))  # raises for a socket of another type
        assert folder.name.startswith("rnnbench-") and folder.stat().st_mode & 0o777 == 0o700
        assert not folder.is_relative_to(long)
    finally:
        importers.end()
        monkeypatch.delenv(FOLDER, raising=False)
    assert list(long.iterdir()) == [] and not folder.exists()
    monkeypatch.setattr(worker, "LONGEST_SOCKET", 20)
    WorkflowImporters([config], ROOT).end()
    assert "set TMPDIR to a writable folder with a short path" in capsys.readouterr().err


def test_the_path_of_a_socket_is_as_long_as_it_may_be(tmp_path, monkeypatch) -> None:
    """A folder like rnnbench-abcdefgh, a slash and 16 bytes."""
    monkeypatch.setattr(worker.tempfile, "tempdir", str(tmp_path))
    length = len(f"{tmp_path}/rnnbench-abcdefgh/") + 16
    for longest, parent in ((length, tmp_path), (length - 1, Path("/tmp"))):
        monkeypatch.setattr(worker, "LONGEST_SOCKET", longest)
        folder = worker._socket_folder()
        folder.rmdir()
        assert folder.parent == parent
    assert list(tmp_path.iterdir()) == []


def test_the_importers_are_those_with_the_most_workers(tmp_path, monkeypatch) -> None:
    started = []
    monkeypatch.setattr(
        WorkflowImporters,
        "_start",
        lambda self, config, root, files: started.append(config["device"]["name"]),
    )
    monkeypatch.setattr(worker.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(worker.os, "sched_getaffinity", lambda process: {0, 1})
    workers = ["cpu_1", *["cpu_2"] * 3, *["cpu_4"] * 2]
    importers = WorkflowImporters([planned(device) for device in workers], ROOT)
    importers.end()
    assert started == ["cpu_2", "cpu_4"]
