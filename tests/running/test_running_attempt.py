"""One attempt at a run at a time, also across nodes: dead attempts are taken over, living ones are
waited for."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path

import pytest

from rnnbench.running import attempt
from tests.conftest import ROOT, wait_until

ELSEWHERE = {"host": "other 1234 pid:[1]", "pid": 1, "begun": 1, "job": None}
HOLD = """
import sys, time
from pathlib import Path
from rnnbench.running import attempt
attempt.POLL = 0.05
with attempt.held(Path(sys.argv[1]), lambda who: print("waits for", who, flush=True)):
    print("begins", time.monotonic(), flush=True)
    time.sleep(float(sys.argv[2]))
    print("ends", time.monotonic(), flush=True)
"""


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt, "INTERVAL", 0.1)
    monkeypatch.setattr(attempt, "POLL", 0.02)


def start(folder: Path, seconds: float) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder), str(seconds)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.PIPE,
        text=True,
    )


def elsewhere(folder: Path, number: int = 1, **facts) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"{number}.json"
    path.write_text(json.dumps({**ELSEWHERE, **facts}))
    return path


def test_eight_processes_one_after_another(tmp_path: Path) -> None:
    """Each takes over an attempt that has ended, for which all others wait too."""
    processes = [start(tmp_path / "run", 0.1) for _ in range(8)]
    outputs = [process.communicate(timeout=60)[0].splitlines() for process in processes]
    times = sorted([float(line.split()[1]) for line in lines[-2:]] for lines in outputs)
    assert len(times) == 8 == len(list((tmp_path / "run").glob("*.json")))
    assert all(end <= begin for (_, end), (begin, _) in pairwise(times))


def test_a_killed_attempt_of_this_host_is_taken_over_at_once(tmp_path: Path) -> None:
    """Even while it is a zombie: it keeps its number until its parent asks for its exit code."""
    first = start(tmp_path, 300)
    assert first.stdout is not None and first.stdout.readline().startswith("begins")
    second = start(tmp_path, 0)
    assert second.stdout is not None
    assert f"process {first.pid} on" in second.stdout.readline()
    first.send_signal(signal.SIGKILL)
    state = Path(f"/proc/{first.pid}/stat")
    wait_until(lambda: state.read_text().rpartition(")")[2].split()[0] == "Z", 10, "not a zombie")
    began = time.monotonic()
    assert second.communicate(timeout=10)[0].startswith("begins")
    assert time.monotonic() - began < 5
    first.wait()


def test_another_host_is_waited_for_while_it_renews(tmp_path: Path) -> None:
    path, waited = elsewhere(tmp_path), []

    def renew() -> None:
        for _ in range(15):
            os.utime(path)
            time.sleep(0.1)

    holder = threading.Thread(target=renew)
    holder.start()
    with attempt.held(tmp_path, waited.append):
        assert not holder.is_alive(), "taken over from a living attempt"
    assert waited == ["process 1 on other"]


def test_another_host_that_does_not_renew_is_dead_whatever_its_clock(tmp_path: Path) -> None:
    path = elsewhere(tmp_path)
    os.utime(path, (time.time() + 9999, time.time() + 9999))
    began = time.monotonic()
    with attempt.held(tmp_path):
        assert attempt.PATIENCE * 0.1 <= time.monotonic() - began < 5


def test_the_holder_renews_and_notices_that_it_was_considered_dead(tmp_path: Path) -> None:
    path, began = tmp_path / "1.json", time.process_time()
    with attempt.held(tmp_path) as is_current:
        before = path.stat().st_mtime_ns
        time.sleep(1)
        assert path.stat().st_mtime_ns > before
        assert is_current()
        elsewhere(tmp_path, 2)
        assert not is_current()
    assert json.loads(path.read_text())["ended"]
    # Renewals are a hundred times as frequent as by default.
    assert time.process_time() - began < 0.1


def test_a_file_that_is_just_being_written_is_alive(tmp_path: Path) -> None:
    (tmp_path / "1.json").touch()
    waited: list[str] = []
    with attempt.held(tmp_path, waited.append):
        assert waited and (tmp_path / "2.json").exists()


def pretend_squeue(folder: Path, monkeypatch, script: str) -> None:
    folder.mkdir()
    (folder / "squeue").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


@pytest.mark.parametrize(
    ("script", "over"),
    [
        ("echo RUNNING", False),
        ("echo SUSPENDED", False),
        ("echo CANCELLED", True),
        ("echo NODE_FAIL", True),
        ("echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1", True),
        ("echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1", False),
        ("exit 0", False),
    ],
)
def test_slurm_is_queried_about_jobs(tmp_path: Path, monkeypatch, script: str, over: bool) -> None:
    pretend_squeue(tmp_path / "bin", monkeypatch, script)
    assert attempt.is_over({"id": "7", "cluster": None}) is over
    assert not attempt.is_over({})


HERE = {**attempt.this_process(), "begun": 1}


@pytest.mark.parametrize(
    "dead",
    [
        {"ended": "20261121T075000_123456Z"},
        HERE,  # the process id was used again
        {"job": {"id": "9", "cluster": "c"}},  # Slurm has ended it
        {"job": {"id": "7", "cluster": "c", "restart": 0}},  # requeued as this job
    ],
)
def test_a_dead_attempt_is_taken_over_at_once(tmp_path: Path, monkeypatch, dead: dict) -> None:
    pretend_squeue(tmp_path / "bin", monkeypatch, "test $4 = --jobs=9 && echo TIMEOUT")
    for name, value in {"JOB_ID": "7", "CLUSTER_NAME": "c", "RESTART_COUNT": "1"}.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    elsewhere(tmp_path / "run", **dead)
    with attempt.held(tmp_path / "run", pytest.fail) as is_current:
        assert (tmp_path / "run/2.json").exists() and is_current()


def test_a_living_attempt_of_this_host_is_waited_for(tmp_path: Path) -> None:
    """However long it does not renew its file: its process is there."""
    me = {**attempt.this_process(), "job": {"id": "7", "cluster": "c"}}
    path, waited = elsewhere(tmp_path, **me), []

    def end() -> None:
        time.sleep(1.0)
        path.write_text(json.dumps({**me, "ended": "now"}))

    ending = threading.Thread(target=end)
    ending.start()
    with attempt.held(tmp_path, waited.append):
        assert not ending.is_alive()
    ending.join()
    assert waited == [f"process {os.getpid()} on {os.uname().nodename}, Slurm job 7"]


def test_a_process_is_known_by_its_start(tmp_path: Path) -> None:
    child = subprocess.Popen(["sleep", "60"])
    begun = attempt._begun(child.pid)
    ticks = os.sysconf("SC_CLK_TCK")
    since_boot = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert begun is not None and abs(begun / ticks - since_boot) < 20
    child.kill()
    stat = Path(f"/proc/{child.pid}/stat")
    wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "Z", 10, "not a zombie")
    assert attempt._begun(child.pid) is None
    child.wait()
    assert attempt._begun(child.pid) is None and attempt._begun("none") is None


def test_slurm_is_asked_about_jobs_of_its_own_cluster(tmp_path: Path, monkeypatch) -> None:
    log = tmp_path / "asked"
    pretend_squeue(tmp_path / "bin", monkeypatch, f'echo "$@" >> {log}; echo COMPLETED FAILED')
    monkeypatch.setenv("SLURM_CLUSTER_NAME", "alps")
    assert attempt.is_over({"id": "7", "cluster": "alps"})
    assert not attempt.is_over({"id": "7", "cluster": "etna"})
    assert log.read_text() == "--noheader --states=all --format=%T --jobs=7\n"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not attempt.is_over({"id": "7", "cluster": "alps"}), "no squeue"


def test_an_attempt_of_this_job_is_alive_until_the_job_is_started_again(
    tmp_path: Path, monkeypatch
) -> None:
    """Without an answer of Slurm, it is waited for until it does not renew its file."""
    pretend_squeue(tmp_path / "bin", monkeypatch, "exit 1")
    for name, value in {"JOB_ID": "7", "CLUSTER_NAME": "c", "RESTART_COUNT": "1"}.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    for number, (job, waits) in enumerate(
        (({"restart": 1}, True), ({"restart": 0}, False), ({}, False), ({"cluster": "d"}, True))
    ):
        waited: list[str] = []
        folder = tmp_path / f"run{number}"
        elsewhere(folder, job={"id": "7", "cluster": "c", **job})
        with attempt.held(folder, waited.append):
            assert bool(waited) == waits, job


def test_a_job_of_slurm_says_where_it_is(monkeypatch) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert attempt.slurm_job() is None
    variables = {"SLURM_JOB_ID": "7", "SLURM_CLUSTER_NAME": "alps", "SLURMD_NODENAME": "n1"}
    for name, value in {**variables, "SLURM_JOB_PARTITION": "p"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("SLURM_RESTART_COUNT", raising=False)
    job = {"id": "7", "cluster": "alps", "node": "n1", "partition": "p", "restart": 0}
    assert attempt.slurm_job() == job
    monkeypatch.setenv("SLURM_RESTART_COUNT", "2")
    assert attempt.slurm_job() == {**job, "restart": 2}
