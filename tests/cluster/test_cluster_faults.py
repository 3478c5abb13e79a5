"""Faults of a cluster: each is reported with the round's name, other rounds go on, nothing hangs,
nothing is measured twice, and the same command completes the grid.

The rounds are short, with two runs each. This process holds the attempt lock of a run in three of
them, so that they cannot start: one until its job is cancelled, one until its job exceeds its time
limit, one until its node is lost.
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections import Counter
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

from rnnbench.records.store import read_record
from rnnbench.running import attempt
from tests.cluster.conftest import SECONDS, ClusterProject, cluster_project
from tests.cluster.slurm import Slurm
from tests.conftest import kill_everything, wait_until

OUTAGE_SECONDS = 60
FOLDER = "results/slurm/cluster_faults"
ROUND = "fake-lstm-{}-fake-s0-r{}"
CANCELLED, UNHARMED, LOST = (ROUND.format("cpu_1", repeat) for repeat in range(3))
LIMITED = ROUND.format("pretend_slow", 0)
ALL = {CANCELLED, UNHARMED, LOST, LIMITED}


def runs(*rounds: str) -> set[str]:
    names = set()
    for name in rounds:
        start, end = name.replace("lstm-", "lstm-{}-").split("-s0")
        for rnn in ("fake_fast", "fake_middle"):
            names.add(f"{start.format(rnn)}-epoch_seconds1.0-s0{end}")
    return names


def running(slurm: Slurm) -> dict[str, tuple[str, str]]:
    """Round → job and node of the running jobs."""
    lines = slurm.call("squeue", "-h", "-t", "RUNNING", "-o", "%k|%i|%N").splitlines()
    jobs = [line.split("|") for line in lines]
    return {Path(comment).stem: (job, node) for comment, job, node in jobs}


def names(project: ClusterProject) -> Counter[str]:
    return Counter(path.parent.name for path in project.records())


def test_faults_are_reported_and_the_same_command_completes_the_grid(
    slurm: Slurm, tmp_path: Path
) -> None:
    devices = tmp_path / "devices.yaml"
    devices.write_text((Path(__file__).parent / "devices.yaml").read_text())
    project = cluster_project(tmp_path / "project", slurm, devices)
    project.prepare()
    attempts = project.folder / FOLDER / "attempts"
    with ExitStack() as until_ended, ExitStack() as until_lost:
        for name in (CANCELLED, LIMITED):
            until_ended.enter_context(attempt.held(attempts / max(runs(name))))
        until_lost.enter_context(attempt.held(attempts / max(runs(LOST))))
        node = start_with_faults(project, slurm)
        assert set(names(project)) == runs(UNHARMED)
        # The job of the lost round still runs, although Slurm has lost its node.
        until_lost.close()
        wait_until(lambda: runs(LOST) <= set(names(project)), 60, "the lost round's records")
    slurm.call("slurmd", "-N", node)
    slurm.wait_for_nodes(60)
    before = {path: path.read_bytes() for path in project.records()}

    devices.write_text(devices.read_text().replace("{time: 1}", "{time: 5}"))
    kill_and_complete(project, slurm)
    assert names(project) == dict.fromkeys(runs(*ALL), 1)
    assert all(path.read_bytes() == content for path, content in before.items())
    assert_no_overlap_on_a_node(project)


def start_with_faults(project: ClusterProject, slurm: Slurm) -> str:
    """A job is cancelled, slurmctld is down, a job exceeds its limit, a node is lost. Returns the
    node."""
    process = project.start(experiment="cluster_faults")
    try:
        wait_until(lambda: CANCELLED in running(slurm), 90, "the round that is cancelled")
        slurm.call("scancel", running(slurm)[CANCELLED][0])
        wait_until(lambda: LIMITED in running(slurm), 90, "the round that exceeds its limit")
        lines = (project.folder / FOLDER / "plan.jsonl").read_text().splitlines()
        planned = list(dict.fromkeys(json.loads(line)["round"] for line in lines))
        jobs = sorted((int(job), Path(comment).stem) for job, _, comment in slurm.jobs())
        queue = [name for _, name in jobs if name in ALL]
        assert queue == planned[: len(queue)], "the queue is in the order of the plan"
        slurm.kill("slurmctld")
        time.sleep(OUTAGE_SECONDS)
        assert process.poll() is None, process.communicate()[0]
        slurm.call("slurmctld")
        wait_until(lambda: LOST in running(slurm), 120, "the round that loses its node")
        node = running(slurm)[LOST][1]
        log = project.folder / FOLDER / "logs/round" / f"{LOST}.log"
        wait_until(lambda: log.exists() and "waiting" in log.read_text(), 60, "the round's wait")
        slurm.kill(f"slurmd.{node}", signal.SIGKILL)
        out, _ = process.communicate(timeout=SECONDS)
    finally:
        end(process)
    assert process.returncode == 1, out
    faults = {CANCELLED: "CANCELLED", LIMITED: "TIMEOUT", LOST: "NODE_FAIL"}
    for name, state in faults.items():
        assert f": {state} {FOLDER}/rounds/{name}.json" in out, out
    assert "6 of 8 runs are not finished" in out and "Traceback" not in out, out
    return node


def kill_and_complete(project: ClusterProject, slurm: Slurm) -> None:
    """Snakemake gets a SIGKILL; its jobs continue, and the same command waits for them."""
    process = project.start(experiment="cluster_faults")
    wait_until(lambda: len(running(slurm)) >= 1, 90, "a job")
    jobs = running(slurm)
    kill_everything(process)
    submitted = {job for job, _, _ in slurm.jobs()}
    process = project.start(experiment="cluster_faults")
    try:
        out, _ = process.communicate(timeout=SECONDS)
    finally:
        end(process)
    assert process.returncode == 0, out
    for job, _ in jobs.values():
        assert slurm.facts(job)["JobState"] == "COMPLETED", "the job ended with Snakemake"
    later = [Path(comment).stem for job, _, comment in slurm.jobs() if job not in submitted]
    assert all(count == 1 for count in Counter(later).values())


def end(process: subprocess.Popen) -> None:
    if process.poll() is None:
        kill_everything(process)


def assert_no_overlap_on_a_node(project: ClusterProject) -> None:
    times: dict[tuple[str, str], list[float]] = {}
    for record in map(read_record, project.records()):
        assert record.round and len(record.round.members) == 2
        moments = times.setdefault((record.facts["job"]["node"], record.round.id), [])
        moments += [at for phase in record.phases if phase.timed for at in (phase.start, phase.end)]
    for node in ("n1", "n2"):
        spans = sorted((min(own), max(own)) for (where, _), own in times.items() if where == node)
        assert all(end <= begin for (_, end), (begin, _) in pairwise(spans))
