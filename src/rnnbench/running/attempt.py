"""Ensures that only one attempt at a run is active at a time, across all nodes of a cluster.

Each run has a folder with one small, numbered file per attempt: ``1.json``, ``2.json``, … The
attempt with the highest number holds the run until its file says ``ended`` or it is found dead.
Then the process that creates the next number exclusively holds the run. Files are never deleted or
renamed, so a slow process cannot mistake a living attempt for the dead one that it saw before. No
file-system locks are needed; the file systems of many clusters have none.

A living attempt renews its file's modification time. The process of an attempt on this host is
checked directly. An attempt on another host is dead if its Slurm job is over, or if its file has
not been renewed for `PATIENCE` intervals of the observer's clock (the clocks of two nodes may
differ).
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
EXCLUSIVE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


class Attempt:
    """An attempt that holds its run, unless another process considered it dead."""

    def __init__(self, folder: Path, number: int, descriptor: int):
        self.folder, self.number, self._descriptor = folder, number, descriptor
        self._ended = threading.Event()

    def is_current(self) -> bool:
        """Whether no later attempt has begun. To be checked before anything is recorded."""
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
    """Holds the run whose attempts are in `folder`; first waits for a living attempt to end.

    **Arguments:**

    - `on_wait`: called once with a description of the current holder before waiting.
    - `interval`, `poll`: seconds between renewals, and between checks of another attempt.

    Raises `OSError` if the folder cannot be written.
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
    """A description of this process by which other nodes can recognise it."""
    return {
        "host": _host(),
        "pid": os.getpid(),
        "begun": _begun(os.getpid()),
        "job": slurm.job(),
        "started": timestamps.now(),
    }


def holder_label(holder: Mapping[str, Any]) -> str:
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
            if watched.is_alive(holder):
                watched.report_once(on_wait)
                time.sleep(poll)
                continue
        with suppress(FileExistsError):
            descriptor = os.open(folder / f"{last + 1}.json", EXCLUSIVE, 0o644)
            _write(descriptor, holder)
            return Attempt(folder, last + 1, descriptor)


class _Watch:
    """Another attempt, observed repeatedly."""

    def __init__(self, path: Path, number: int, interval: float):
        self.number, self._path, self._interval = number, path, interval
        self._renewed, self._seen = -1, time.monotonic()
        self._slurm_checked = -float("inf")
        self._holder: dict[str, Any] = {}
        self._reported = False

    def is_alive(self, me: Mapping[str, Any]) -> bool:
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
        if now - self._slurm_checked > 3 * self._interval:
            self._slurm_checked = now
            if slurm.is_over(self._holder.get("job")):
                return False
        return now - self._seen < PATIENCE * self._interval

    def report_once(self, on_wait: Callable[[str], None]) -> None:
        if not self._reported:
            on_wait(holder_label(self._holder))
        self._reported = True


def _last(folder: Path) -> int:
    numbers = [int(path.stem) for path in folder.glob("*.json") if path.stem.isdigit()]
    return max(numbers, default=0)


def _read(path: Path) -> tuple[int, dict[str, Any]]:
    """When the attempt was renewed, and its holder. The file is opened each time so that NFS asks
    its server. A file that is just being written has an empty holder and counts as alive."""
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
    """The host, its current boot and the container: the scope in which process ids are unique."""
    namespace = ""
    with suppress(OSError):
        namespace = os.readlink("/proc/self/ns/pid")
    return f"{os.uname().nodename} {machine.boot()} {namespace}"


def _begun(pid: object) -> int | None:
    """When the process was started (clock ticks since boot), or None if it has ended. A process id
    alone may have been reused."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])
