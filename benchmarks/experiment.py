"""Measures a benchmark's experiment with the workflow."""

from __future__ import annotations

import os
import subprocess
import time
from fnmatch import fnmatch
from pathlib import Path

from rnnbench.records.record import Record
from rnnbench.records.rounds import records_of
from tests.conftest import Project

ROOT = Path(__file__).parents[1]


def this_project(choices: Path) -> Project:
    """This checkout, whose results folder keeps the records, with the further `choices`."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return Project(ROOT, environment, choices, forks=False)


def measure_experiment(project: Project, name: str, text: str, runs: str = "*") -> list[Record]:
    """Writes `text` as the experiment `name` of `project`, measures its rounds and returns the
    records of its `runs` (a pattern). If interrupted, the same call continues."""
    (project.conf / "experiment").mkdir(parents=True, exist_ok=True)
    (project.conf / f"experiment/{name}.yaml").write_text(text)
    cores = len(os.sched_getaffinity(0))
    command = project.command("--until", "rounds", experiment=name, cores=cores)
    start = time.monotonic()
    if project.forks:
        done = project.run(command)
        if done.returncode:
            raise SystemExit(done.stdout + done.stderr)
    else:
        subprocess.run(command, cwd=project.folder, env=project.environment, check=True)
    print(f"the workflow took {time.monotonic() - start:.0f} s")
    # Records name their certificates by paths relative to the project.
    os.chdir(project.folder)
    records, faults = records_of(sorted(Path("results").glob(f"*/{name}")))
    for fault in faults:
        print(fault)
    return [record for record in records if fnmatch(record.name, f"{runs}-s*-r*")]
