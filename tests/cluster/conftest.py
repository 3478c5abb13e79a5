"""A private two-node Slurm, and a project that uses it."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import slurm as private_slurm
from tests.cluster.slurm import Slurm
from tests.conftest import ROOT, Project, make_project

HERE = Path(__file__).parent
SECONDS = 240  # time limit of a Snakemake command, in case it hangs


@pytest.fixture(scope="session")
def slurm() -> Iterator[Slurm]:
    if why := private_slurm.missing():
        pytest.skip(why)
    # Not below pytest's folders: munge refuses folders that other users cannot enter.
    folder = Path(tempfile.mkdtemp(prefix="rnnbench-slurm-"))
    folder.chmod(0o755)
    cluster = Slurm(folder)
    try:
        cluster.up()
        yield cluster
    finally:
        cluster.down()
        shutil.rmtree(folder, ignore_errors=True)


class ClusterProject(Project):
    """A project whose runs go through Slurm."""

    profile = "slurm"

    def command(self, *arguments: str, experiment: str = "cluster", cores: int = 0) -> list[str]:
        return [
            *("timeout", "--kill-after=5", str(SECONDS), sys.executable, "-m", "snakemake"),
            *("--snakefile", str(ROOT / "workflow/Snakefile"), "--workflow-profile", self.profile),
            *arguments,
            *("--config", f"experiment={experiment}", f"conf={self.conf}"),
        ]


def cluster_project(folder: Path, slurm: Slurm, devices: Path = HERE / "devices.yaml"):
    folder.mkdir(parents=True, exist_ok=True)
    project = make_project(folder)
    environment = {
        **project.environment,
        **{name: slurm.environment[name] for name in ("PATH", "SLURM_CONF")},
        "RNNBENCH_DEVICES": str(devices),
        # The two nodes share one host, but each has a separate timing lock.
        "RNNBENCH_TIMING_LOCK": f"{folder}/timing-$SLURMD_NODENAME.lock",
    }
    return ClusterProject(project.folder, environment, project.conf)
