"""One attempt at a run at a time, on whichever node of a cluster it lands.

A folder per run holds one small file per attempt, numbered: ``1.json``, ``2.json``, … The highest
number has the run until it says ``ended`` or is found dead; the next attempt is whoever creates
the next number, exclusively. Nothing is ever deleted or renamed, so that a slow process cannot
take a living attempt for the dead one it saw before. No lock of the file system is needed: on
many a cluster's there is none.

A living attempt renews its file's time. A process of this host is asked for directly; one of
another host is dead when its Slurm job is over, or when its file has not been renewed for
`PATIENCE` intervals of the observer's own clock (two nodes' clocks may differ).
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rnnbench.records import timestamps
from rnnbench.running import slurm
from rnnworker import machine

INTERVAL = 10.0  # seconds from one renewal to the next
PATIENCE = 6
POLL = 2.0
EXCLUSIVELY = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


class Attempt:
    """An attempt that has its run, until somebody took it for dead."""

    def __init__(self, folder: Path, number: int, descriptor: int):
        self.folder, self.number, self._descriptor = folder, number, descriptor
        self._ended = threading.Event()

    def is_current(self) -> bool:
        """Whether no later attempt has begun. Asked before anything is recorded."""
        return _last(self.folder) == self.number

    def renew(self, interval: float) -> None:
        while not self._ended.wait(interval):
            with suppress(OSError):
                os.utime(self._descriptor)

    def end(self, holder: Mapping[str, Any]) -> None:
        self._ended.set()
        with suppress(OSError):
            _write(self._descriptor, {**holder, "ended": timestamps.now()})
        os.close(self._descriptor)


@contextmanager
def held(
    folder: Path,
    on_wait: Callable[[str], None] = lambda holder: None,
    *,
    interval: float = INTERVAL,
    poll: float = POLL,
) -> Iterator[Attempt]:
    """Has the run whose attempts are in `folder`, after waiting for a living attempt at it.

    **Arguments:**

    - `on_wait`: called once with the words for the present holder before waiting.
    - `interval`, `poll`: seconds between renewals, and between looks at another's.

    Raises `OSError` where the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    holder = current_holder()
    attempt = _wait_and_take(folder, holder, on_wait, interval, poll)
    renewing = threading.Thread(target=attempt.renew, args=(interval,), daemon=True)
    renewing.start()
    try:
        yield attempt
    finally:
        attempt.end(holder)


def current_holder() -> dict[str, Any]:
    """This process, as another node can recognise it."""
    return {
        "host": _host(),
        "pid": os.getpid(),
        "begun": _begun(os.getpid()),
        "job": slurm.job(),
        "started": timestamps.now(),
    }


def words(holder: Mapping[str, Any]) -> str:
    job = (holder.get("job") or {}).get("id")
    host = str(holder.get("host", "an unknown host")).partition(" ")[0]
    return f"process {holder.get('pid')} on {host}" + (f", Slurm job {job}" if job else "")


def _wait_and_take(folder, holder, on_wait, interval: float, poll: float) -> Attempt:
    watched: _Watch | None = None
    while True:
        last = _last(folder)
        if last:
            if watched is None or watched.number != last:
                watched = _Watch(folder / f"{last}.json", last, interval)
            if watched.alive(holder):
                watched.tell_once(on_wait)
                time.sleep(poll)
                continue
        with suppress(FileExistsError):
            descriptor = os.open(
                folder / f"{last + 1}.json",
                os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC,
                0o644,
            )
            _write(descriptor, holder)
            return Attempt(folder, last + 1, descriptor)


class _Watch:
    """Another attempt, looked at again and again."""

    def __init__(self, path: Path, number: int, interval: float):
        self.number, self._path, self._interval = number, path, interval
        self._renewed, self._seen = -1, time.monotonic()
        self._asked = -float("inf")
        self._holder: dict[str, Any] = {}
        self._told = False

    def alive(self, me: Mapping[str, Any]) -> bool:
        renewed, self._holder = _read(self._path)
        now = time.monotonic()
        if renewed != self._renewed:
            self._renewed, self._seen = renewed, now
        if self._holder.get("ended"):
            return False
        if self._holder.get("host") == me["host"]:
            return _begun(self._holder.get("pid")) == self._holder.get("begun")
        if slurm.is_earlier_start(self._holder.get("job"), me["job"]):
            return False
        if now - self._asked > 3 * self._interval:
            self._asked = now
            if slurm.is_over(self._holder.get("job")):
                return False
        return now - self._seen < PATIENCE * self._interval

    def tell_once(self, on_wait: Callable[[str], None]) -> None:
        if not self._told:
            on_wait(words(self._holder))
        self._told = True


def _last(folder: Path) -> int:
    numbers = [int(path.stem) for path in folder.glob("*.json") if path.stem.isdigit()]
    return max(numbers, default=0)


def _read(path: Path) -> tuple[int, dict[str, Any]]:
    """When it was renewed, and who it is; opened each time, so that NFS asks its server. One that
    is just being written is nobody yet, and alive."""
    with path.open("rb") as file:
        renewed = os.fstat(file.fileno()).st_mtime_ns
        try:
            data = json.loads(file.read())
        except ValueError:
            data = {}
    return renewed, data if isinstance(data, dict) else {}


def _write(descriptor: int, holder: Mapping[str, Any]) -> None:
    content = (json.dumps(holder) + "\n").encode()
    os.pwrite(descriptor, content, 0)
    os.ftruncate(descriptor, len(content))
    os.fsync(descriptor)


def _host() -> str:
    """This boot of this host, and the container: where a process id means something."""
    space = ""
    with suppress(OSError):
        space = os.readlink("/proc/self/ns/pid")
    return f"{os.uname().nodename} {machine.boot()} {space}"


def _begun(pid: object) -> int | None:
    """When the process was started (clock ticks since boot), None where it is gone: a process
    id alone may have been given to another one."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])
