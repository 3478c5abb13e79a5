"""Supervision of real processes that follow or violate the event protocol."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from rnnbench.running.worker import Outcome, supervise
from rnnworker import members
from rnnworker.members import Member
from tests.conftest import ROOT, wait_until

PROTOCOL = """
import json, os, sys, time, subprocess, signal
events = int(os.environ["RNNWORKER_EVENTS"])
def emit(event, **fields):
    os.write(events, (json.dumps(dict(fields, event=event, t=time.monotonic())) + "\\n").encode())
def handshake():
    emit("handshake")
    return sys.stdin.readline()
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Supervises a worker that executes a few lines after the protocol's functions."""
    # Longer than the machine may be stopped: what ends in time is not killed.
    monkeypatch.setattr(members, "GRACE_SECONDS", 3)

    def start(script: str, limits: dict | None = None, **options) -> Outcome:
        command = [sys.executable, "-S", "-c", PROTOCOL + textwrap.dedent(script)]
        environment = {"MARK": "here", "FOLDER": str(tmp_path)}
        files = tmp_path / "log", tmp_path / "events.jsonl"
        limits = {"default": 20, **(limits or {})}
        member = Member("worker", command, environment, *files, limits, **options)
        return supervise([member])["worker"]

    return start


def wait_for_end(file: Path) -> None:
    """Waits until the process whose id is in `file` has ended or is a zombie."""
    process = int(file.read_text())

    def has_ended() -> bool:
        try:
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        return state == "Z"

    wait_until(has_ended, 5, f"end of process {process}")


def test_an_event_with_nan_is_no_event(run) -> None:
    seen = []
    run(
        """
        os.write(events, b'{"event": "epoch", "loss": NaN}\\n')
        emit("finished")
        """,
        on_event=lambda event: seen.append(event["event"]),
    )
    assert seen == ["finished"]


def test_events_handshakes_and_files(run, tmp_path: Path) -> None:
    seen = []
    outcome = run(
        """
        emit("hello")
        emit("phase_begin", phase="import")
        emit("phase_end", phase="import")
        print("answer", repr(handshake()), os.environ["MARK"], "HOME" in os.environ)
        print("to standard error", file=sys.stderr)
        emit("finished")
        """,
        on_event=lambda event: seen.append(event["event"]),
    )
    names = ["hello", "phase_begin", "phase_end", "handshake", "finished"]
    assert [event["event"] for event in outcome.events] == names == seen
    assert (outcome.exit_code, outcome.garbage, outcome.over_limit) == (0, 0, None)
    assert outcome.phase == "end"
    kept = (tmp_path / "events.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in kept] == outcome.events
    log = (tmp_path / "log").read_text()
    # The worker has only the environment that it was given.
    assert "answer 'go\\n' here False" in log
    assert "to standard error" in log


def test_the_worker_waits_while_the_controller_works_and_its_limits_do_not_count(run) -> None:
    outcome = run(
        """
        emit("phase_begin", phase="build")
        emit("phase_end", phase="build")
        handshake()
        emit("finished")
        """,
        limits={"end": 0.3},
        on_event=lambda event: time.sleep(0.6 * (event["event"] == "handshake")),
    )
    times = {event["event"]: event["t"] for event in outcome.events}
    assert times["finished"] - times["handshake"] >= 0.6
    assert outcome.over_limit is None


def test_lines_that_are_not_events_are_counted_and_left_out(run, tmp_path: Path) -> None:
    outcome = run(
        r"""
        emit("hello")
        os.write(events, b"\xff\xfe{not json\n[1, 2]\n42\n{\"event\": 7}\n{}\n\n")
        os.write(events, b'{"event": "ep')
        time.sleep(0.05)
        os.write(events, b'och", "epoch": 1}\n')
        os.write(events, b"[" * 100000 + b"\n")
        emit("finished")
        os.write(events, b'{"event": "half')
        """
    )
    assert [event["event"] for event in outcome.events] == ["hello", "epoch", "finished"]
    assert outcome.garbage == 7
    assert b"not json" in (tmp_path / "events.jsonl").read_bytes()


def test_more_events_than_fit_into_a_pipe_are_read_completely(run) -> None:
    outcome = run('for number in range(4000): emit("epoch", epoch=number, filler="x" * 50)')
    assert [event["epoch"] for event in outcome.events] == list(range(4000))


def test_a_phase_over_its_limit_ends_the_worker_and_its_children(run, tmp_path: Path) -> None:
    start = time.monotonic()
    outcome = run(
        """
        emit("phase_begin", phase="train")
        child = subprocess.Popen(["sleep", "300"])
        open(os.environ["FOLDER"] + "/child", "w").write(str(child.pid))
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        emit("epoch", epoch=1)
        time.sleep(300)
        """,
        limits={"train": 0.5},
    )
    assert time.monotonic() - start < 20
    assert outcome.over_limit == outcome.phase == "train"
    assert outcome.exit_code == -signal.SIGKILL
    assert outcome.events[-1]["event"] == "epoch"
    wait_for_end(tmp_path / "child")


def test_a_worker_receives_sigterm_before_sigkill(run) -> None:
    outcome = run(
        """
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(5))
        emit("phase_begin", phase="train")
        time.sleep(300)
        """,
        limits={"train": 0.3},
    )
    assert (outcome.over_limit, outcome.exit_code) == ("train", 5)


@pytest.mark.parametrize(
    ("limits", "script", "over_limit"),
    [
        ({"start": 0.2}, "time.sleep(300)", "start"),
        (  # it writes endlessly
            {"train": 0.5},
            r"""
            emit("phase_begin", phase="train")
            end = time.monotonic() + 20
            while time.monotonic() < end:
                os.write(events, b"garbage\n" * 1000)
            """,
            "train",
        ),
        (  # a limit starts with its phase
            {"import": 4, "data": 4, "build": 4},
            """
            for phase in ("import", "data", "build"):
                emit("phase_begin", phase=phase)
                time.sleep(1.5)
                emit("phase_end", phase=phase)
            """,
            None,
        ),
    ],
)
def test_each_phase_has_its_limit(run, limits: dict, script: str, over_limit: str | None) -> None:
    outcome = run(script, limits=limits)
    assert outcome.over_limit == over_limit
    assert (outcome.garbage > 1000) == ("garbage" in script)


def test_a_child_that_outlives_its_worker_is_ended(run, tmp_path: Path) -> None:
    outcome = run(
        """
        child = subprocess.Popen(["sleep", "300"], pass_fds=[events])
        open(os.environ["FOLDER"] + "/child", "w").write(str(child.pid))
        emit("finished")
        """
    )
    assert outcome.exit_code == 0
    assert [event["event"] for event in outcome.events] == ["finished"]
    wait_for_end(tmp_path / "child")


@pytest.mark.parametrize(
    ("script", "exit_code"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", -signal.SIGSEGV),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("sys.exit(3)", 3),
        # It may close its pipe before it ends, but not go on without it.
        ("os.close(events)\ntime.sleep(0.1)\nsys.exit(0)", 0),
        ("os.close(events)\ntime.sleep(300)", -signal.SIGTERM),
        # An end at its handshake is not an error of the controller.
        ("emit('handshake')\nsys.exit(4)", 4),
    ],
)
def test_how_a_worker_ended(run, script: str, exit_code: int) -> None:
    start = time.monotonic()
    outcome = run(
        f"emit('phase_begin', phase='train')\n{script}",
        on_event=lambda event: time.sleep(0.2),
    )
    assert time.monotonic() - start < 20
    assert (outcome.exit_code, outcome.phase) == (exit_code, "train")
    assert outcome.over_limit is None


def test_a_controller_that_fails_leaves_no_worker(run, tmp_path: Path) -> None:
    def fail(event: dict) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(
            """
            open(os.environ["FOLDER"] + "/worker", "w").write(str(os.getpid()))
            emit("hello")
            time.sleep(300)
            """,
            on_event=fail,
        )
    wait_for_end(tmp_path / "worker")


def test_the_worker_inherits_locks(run, tmp_path: Path) -> None:
    with (tmp_path / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        outcome = run(f"os.fstat({file.fileno()})", inherit=(file.fileno(),))
    assert outcome.exit_code == 0


def test_the_controller_uses_no_cpu_time_while_the_worker_is_timed(run) -> None:
    before = time.process_time()
    run("emit('phase_begin', phase='train')\ntime.sleep(1)")
    assert time.process_time() - before < 0.2


def test_the_controller_imports_no_large_packages() -> None:
    heavy = ("numpy", "pandas", "mlflow", "hydra", "omegaconf", "dvc", "snakemake", "tensorflow")
    script = "import sys, rnnbench.commands.rules; " + (
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    output = subprocess.check_output(
        [sys.executable, "-c", script],
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    assert output.strip() == "[]"
