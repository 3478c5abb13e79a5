"""What is forked: if nothing was, every test would pass, in twice the time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, Project
from tests.forked_commands import can_fork
from tests.worker import forked


def test_the_commands_of_a_project_are_forked_and_those_of_another_rnnbench_are_not(
    tmp_path: Path,
) -> None:
    project = Project.at(tmp_path)
    commands = (project.command(), [sys.executable, "-m", "rnnbench", "plan"])
    assert all(can_fork(command, project.environment) for command in commands)
    other = {**project.environment, "PYTHONPATH": str(tmp_path)}
    assert not any(can_fork(command, other) for command in commands)


# Prints how many processes this one has started to fork them.
OTHER = """
import pathlib, sys
from tests.worker import forked

forked.folder = pathlib.Path(sys.argv[1])
forked.run(sys.executable, ["json"], "", [], {"FOR": "this test"}, 60)
print(len(forked._started))
"""


def test_processes_of_tests_fork_the_same_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ("a_path_longer_than_the_address_of_a_socket_may_be_" * 3)
    folder.mkdir()
    monkeypatch.setattr(forked, "folder", folder)
    script = "import os, sys; print(os.getppid()); sys.exit(3)"

    def run() -> subprocess.CompletedProcess[str]:
        return forked.run(sys.executable, ["json"], script, [], {"FOR": "this test"}, 60)

    first = run()
    command = [sys.executable, "-c", OTHER, str(folder)]
    assert subprocess.check_output(command, cwd=ROOT, text=True) == "0\n"
    again = run()
    assert first.returncode == again.returncode == 3 and first.stdout == again.stdout
