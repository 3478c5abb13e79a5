"""Locks of the operating system: one holder at a time, and none that has ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from rnnbench import locks
from rnnworker import bundle
from rnnworker.shared_file import open_shared
from tests.conftest import ROOT, wait_until

HOLD = """
import sys, subprocess
from pathlib import Path
from rnnbench import locks
with locks.locked(Path(sys.argv[1]), "the first one") as descriptor:
    child = subprocess.Popen(["sleep", "300"], pass_fds=[descriptor], stdout=2)
    print(child.pid, flush=True)
    sys.stdin.readline()
"""


def is_free(path: Path) -> bool:
    descriptor, _ = locks.take(path, "test")
    if descriptor is not None:
        os.close(descriptor)
    return descriptor is not None


def test_a_second_holder_waits_until_the_lock_is_free(tmp_path: Path) -> None:
    path, waited, held = tmp_path / "made" / "lock", [], threading.Event()

    def second() -> None:
        with locks.locked(path, "the second one", waited.append):
            held.set()

    thread = threading.Thread(target=second)
    with locks.locked(path, "the very first one", pytest.fail):
        assert not is_free(path)
        thread.start()
        wait_until(lambda: waited, 5, "the second one waits")
        assert waited == ["the very first one"] and not held.wait(0.3)
    thread.join(10)
    assert held.is_set() and path.read_text() == "the second one"
    with pytest.raises(ZeroDivisionError), locks.locked(path):
        raise ZeroDivisionError
    assert is_free(path)


def test_a_killed_holder_releases_the_lock_when_its_child_has_ended(tmp_path: Path) -> None:
    """The child inherited the lock, as the worker of an orphaned run does."""
    path = tmp_path / "lock"
    first = subprocess.Popen(
        [sys.executable, "-c", HOLD, path], env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    child = int(first.stdout.readline())
    try:
        assert locks.take(path, "me") == (None, "the first one")
        first.kill()
        first.communicate()
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


def test_every_user_of_the_host_may_lock_where_it_is_possible(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    before = os.umask(0o077)
    try:
        with locks.locked(path):
            assert path.stat().st_mode & 0o777 == 0o666
    finally:
        os.umask(before)
    with pytest.raises(OSError), locks.locked(path / "below_a_file"):
        pass


def test_a_lock_of_the_host_can_be_taken_by_another_user(tmp_path: Path) -> None:
    """The controller and a bundle make it with the same function."""
    before = os.umask(0o077)
    try:
        with locks.locked(tmp_path / "controller"):
            pass
        os.close(open_shared(tmp_path / "bundle"))
    finally:
        os.umask(before)
    for name in ("controller", "bundle"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o666
    assert bundle.open_shared is locks.open_shared is open_shared
