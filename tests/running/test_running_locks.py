from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rnnbench import locks
from tests.conftest import ROOT, wait_until

HOLD = """
import sys, subprocess
from pathlib import Path
from rnnbench import locks
with locks.locked(Path(sys.argv[1]), "the first one") as descriptor:
    if len(sys.argv) > 2:
        child = subprocess.Popen(["sleep", "300"], pass_fds=[descriptor], stdout=2)
        print(child.pid, flush=True)
    print("held", flush=True)
    sys.stdin.readline()
"""
WAIT = """
import sys
from pathlib import Path
from rnnbench import locks
def wait(holder):
    print("waits for", holder, flush=True)
with locks.locked(Path(sys.argv[1]), "the second one", wait):
    print("has it", flush=True)
"""


@pytest.fixture
def start():
    started = []

    def run(script: str, *arguments: object) -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, "-c", script, *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


def is_free(path: Path) -> bool:
    descriptor, _ = locks.take(path, "test")
    if descriptor is not None:
        os.close(descriptor)
    return descriptor is not None


def test_a_second_process_waits_until_the_lock_is_free(tmp_path: Path, start) -> None:
    path = tmp_path / "made" / "lock"
    first = start(HOLD, path)
    assert first.stdout.readline() == "held\n"
    second = start(WAIT, path)
    assert second.stdout.readline() == "waits for the first one\n"
    with pytest.raises(subprocess.TimeoutExpired):
        second.wait(timeout=0.3)
    first.stdin.write("go\n")
    first.stdin.flush()
    assert second.stdout.readline() == "has it\n"
    assert second.wait(timeout=10) == 0
    assert path.read_text() == "the second one"


def test_a_killed_holder_releases_the_lock(tmp_path: Path, start) -> None:
    path = tmp_path / "lock"
    first = start(HOLD, path)
    assert first.stdout.readline() == "held\n"
    assert locks.take(path, "me") == (None, "the first one")
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert is_free(path)


def test_a_child_that_inherited_the_lock_holds_it_after_its_parent_died(
    tmp_path: Path, start
) -> None:
    path = tmp_path / "lock"
    first = start(HOLD, path, "with a child")
    child = int(first.stdout.readline())
    try:
        assert first.stdout.readline() == "held\n"
        first.send_signal(signal.SIGKILL)
        first.wait()
        assert not is_free(path)
    finally:
        os.kill(child, signal.SIGKILL)
    wait_until(lambda: is_free(path), 5, "the lock has no holder but is not free")


def test_other_children_do_not_inherit_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with locks.locked(path, "me"):
        child = subprocess.Popen(["sleep", "300"], close_fds=False)
    try:
        assert is_free(path)
    finally:
        child.kill()
        child.wait()


def test_a_free_lock_needs_no_waiting(tmp_path: Path) -> None:
    waited: list[str] = []
    with locks.locked(tmp_path / "lock", "me", waited.append):
        assert not is_free(tmp_path / "lock")
    assert waited == []
    assert is_free(tmp_path / "lock")


def test_the_lock_is_released_after_an_exception(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), locks.locked(tmp_path / "lock"):
        raise ZeroDivisionError
    assert is_free(tmp_path / "lock")


def test_a_shorter_holder_replaces_a_longer_one(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with locks.locked(path, "a very long name of a holder"):
        pass
    descriptor, _ = locks.take(path, "short")
    assert descriptor is not None
    try:
        assert path.read_text() == "short"
        assert locks.take(path, "another") == (None, "short")
    finally:
        os.close(descriptor)


def test_every_user_of_the_host_may_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    before = os.umask(0o077)
    try:
        with locks.locked(path):
            assert path.stat().st_mode & 0o777 == 0o666
    finally:
        os.umask(before)


def test_a_lock_that_cannot_be_created_raises_an_os_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError), locks.locked(tmp_path / "file" / "lock"):
        pass
