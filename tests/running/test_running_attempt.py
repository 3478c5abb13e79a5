"""One attempt at a run at a time on each host: living attempts are waited for; dead ones and those
of other hosts are not."""

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
    assert second.communicate(timeout=60)[0].startswith("begins")
    first.wait()


def test_an_attempt_on_another_host_is_not_waited_for(tmp_path: Path) -> None:
    """Its node may be lost. If it lives, a second record does no harm."""
    path = elsewhere(tmp_path)
    before = path.read_bytes()
    with attempt.held(tmp_path, pytest.fail):
        assert (tmp_path / "2.json").exists()
    assert json.loads((tmp_path / "2.json").read_text())["ended"]
    assert path.read_bytes() == before


def test_a_file_that_is_just_being_written_is_read_again(tmp_path: Path, monkeypatch) -> None:
    path, owner = tmp_path / "1.json", attempt.this_process()
    path.touch()

    def write_then_end(seconds: float) -> None:
        ended = {"ended": "now"} if path.read_bytes() else {}
        path.write_text(json.dumps({**owner, **ended}))

    monkeypatch.setattr(attempt.time, "sleep", write_then_end)
    waited: list[str] = []
    with attempt.held(tmp_path, waited.append):
        assert waited == [f"process {os.getpid()} on {os.uname().nodename}"]


def test_a_file_that_stays_empty_is_of_a_dead_attempt(tmp_path: Path) -> None:
    (tmp_path / "1.json").touch()
    with attempt.held(tmp_path, pytest.fail):
        assert (tmp_path / "2.json").exists()


HERE = {**attempt.this_process(), "begun": 1}


@pytest.mark.parametrize(
    "dead",
    [
        {"ended": "20261121T075000_123456Z"},
        HERE,  # the process id was used again
        {**HERE, "pid": "none", "begun": None},
    ],
)
def test_a_dead_attempt_is_taken_over_at_once(tmp_path: Path, dead: dict) -> None:
    elsewhere(tmp_path / "run", **dead)
    with attempt.held(tmp_path / "run", pytest.fail):
        assert (tmp_path / "run/2.json").exists()


def test_a_living_attempt_of_this_host_is_waited_for(tmp_path: Path) -> None:
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
