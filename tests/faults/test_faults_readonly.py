"""Folders that cannot be written: one line, and the same command continues."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import Project, copy_of
from tests.faults.matrix import rows
from tests.faults.mounts import mounted


@pytest.fixture(scope="module")
def measured(measured_small: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    return copy_of(measured_small, tmp_path_factory.mktemp("project"))


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Also for root, who may write where the mode forbids it."""
    with mounted(folder, "--bind", str(folder)):
        subprocess.run(["mount", "-o", "remount,ro,bind", str(folder)], check=True)
        yield


COMMANDS = {
    "results": (
        ["retry", "small", "*"],
        ["import", "x.tar.gz"],
        ["export", "small", "-o", "results/x.tar.gz"],
        ["gc"],
    ),
    "data": (["dataset", "digits"],),
    "reports": (["report", "small"],),
    "mlruns": (["track", "--all"],),
}


@rows(
    "name commands",
    {name: (name, commands) for name, commands in COMMANDS.items()},
    "{}/ is read-only",
    "one line; no record changes",
    "make it writable",
)
def test_a_read_only_folder(measured: Project, name: str, commands: list[list[str]]) -> None:
    # A fork would copy MLflow's store, which is to be created.
    measured = replace(measured, forks=name != "mlruns")
    before = {path: path.read_bytes() for path in measured.records()}
    if name == "data":
        (measured.folder / "data/digits.npz").unlink()
    if name == "mlruns":
        measured.folder.joinpath("mlflow.db").unlink()
    with read_only(measured.folder / name):
        for command in commands:
            result = measured.rnnbench(*command)
            assert result.returncode == (2 if "-o" in command else 1), result.stdout
            assert result.stderr.count("\n") == 1 and "Read-only file system" in result.stderr
            assert result.stderr.startswith("rnnbench: ") and "Fix: " in result.stderr
    assert {path: path.read_bytes() for path in measured.records()} == before
    again = measured.rnnbench(*commands[-1])
    assert again.returncode == 0, again.stderr


@pytest.mark.fault(
    "results/ is read-only when a workflow starts", "nothing is measured", "make it writable"
)
def test_a_workflow_with_read_only_results(measured: Project) -> None:
    before = {path: path.read_bytes() for path in measured.records()}
    more = measured.conf / "experiment/more.yaml"
    more.write_text((measured.conf / "experiment/small.yaml").read_text())
    with read_only(measured.folder / "results"):
        result = measured.snakemake(experiment="more")
        assert result.returncode != 0 and "Traceback" not in result.stderr
        assert "Read-only file system" in result.stderr
    assert {path: path.read_bytes() for path in measured.records()} == before
