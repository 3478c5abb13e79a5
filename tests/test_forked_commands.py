"""What `forked_commands` forks: if it forked nothing, every test would pass, in twice the time."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.conftest import Project
from tests.forked_commands import can_fork


def test_the_commands_of_a_project_are_forked_and_those_of_another_rnnbench_are_not(
    tmp_path: Path,
) -> None:
    project = Project.at(tmp_path)
    commands = (project.command(), [sys.executable, "-m", "rnnbench", "plan"])
    assert all(can_fork(command, project.environment) for command in commands)
    other = {**project.environment, "PYTHONPATH": str(tmp_path)}
    assert not any(can_fork(command, other) for command in commands)
