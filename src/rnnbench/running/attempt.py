"""Who owns a run at each moment, across all nodes of a cluster.

1. **Waiting to be measured.** Nobody owns it. On one host, ``results/.lock`` admits one Snakemake.
2. **Claimed** (`held`). Each run has a folder with one small, numbered file per attempt:
   ``1.json``, ``2.json``, … The process that creates the next number exclusively owns the run.
   Files are never deleted or renamed, so a slow process cannot mistake a living attempt for the
   dead one that it saw before. No file-system locks are needed; the file systems of many clusters
   have none.
3. **Being measured.** The owner holds this host's timing lock, too. It renews the modification time
   of its file every `INTERVAL`. Others wait while it lives.
4. **Being recorded.** The owner writes a record only if no later attempt has begun
   (`IsCurrent`).
5. **Ended.** The file says ``ended``. The next owner adopts the record, if there is one.

An owner that ends without saying so is dead: on this host, if its process is gone; on another host,
if its Slurm job is over or was started again, or if its file was not renewed for `PATIENCE`
intervals of the observer's clock (the clocks of two nodes may differ). The next number then owns
the run, and an owner that was considered dead by mistake finds it and records nothing.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rnnbench.records import timestamps
from rnnworker import machine

INTERVAL = 10.0  # seconds from one renewal to the next
PATIENCE = 6
POLL = 2.0  # seconds between two looks at another attempt
SQUEUE_SECONDS = 10
EXCLUSIVE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
IsCurrent = Callable[[], bool]
Owner = Mapping[str, Any]  # an attempt's process, as `this_process` describes it
OVER = {
    "BOOT_FAIL",
    "CANCELLED",
    "COMPLETED",
    "DEADLINE",
    "FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "REVOKED",
    "TIMEOUT",
}


@contextmanager
def held(folder: Path, on_wait: Callable[[str], None] = lambda owner: None) -> Iterator[IsCurrent]:
    """Owns the run whose attempts are in `folder`; first waits for a living attempt to end.

    Yields a function that returns whether no later attempt has begun, to be called before anything
    is recorded. `on_wait`: called once with a description of each owner that is waited for. Raises
    `OSError` if the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    owner = this_process()
    number, descriptor = _claim(folder, owner, on_wait)

    ended = threading.Event()

    def renew() -> None:
        while not ended.wait(INTERVAL):
            with suppress(OSError):
                os.utime(descriptor)

    threading.Thread(target=renew, daemon=True).start()
    try:
        yield lambda: _last(folder) == number
    finally:
        ended.set()
        with suppress(OSError):
            _write(descriptor, {**owner, "ended": timestamps.now()})
        os.close(descriptor)


def this_process() -> dict[str, Any]:
    """A description of this process by which other nodes can recognise it.

    It has ``host``, ``pid``, ``begun`` (clock ticks since boot), ``job`` (as `slurm_job`) and
    ``started`` (a timestamp).
    """
    namespace = ""
    with suppress(OSError):
        namespace = os.readlink("/proc/self/ns/pid")
    return {
        # The host, its current boot and the container: the scope in which process ids are unique.
        "host": f"{os.uname().nodename} {machine.boot()} {namespace}",
        "pid": os.getpid(),
        "begun": _begun(os.getpid()),
        "job": slurm_job(),
        "started": timestamps.now(),
    }


def slurm_job() -> dict[str, Any] | None:
    """Id, cluster, node, partition and restart count of this process's job.

    None outside Slurm.
    """
    read = os.environ.get
    if not read("SLURM_JOB_ID"):
        return None
    return {
        "id": read("SLURM_JOB_ID"),
        "cluster": read("SLURM_CLUSTER_NAME"),
        "node": read("SLURMD_NODENAME"),
        "partition": read("SLURM_JOB_PARTITION"),
        "restart": int(read("SLURM_RESTART_COUNT", 0)),
    }


def _claim(folder: Path, me: Owner, on_wait: Callable[[str], None]) -> tuple[int, int]:
    """Waits while the latest attempt lives, then begins the next for the process `me`.

    Returns the number of the new attempt and the descriptor of its file.
    """
    watched = (0, 0)  # the attempt that is waited for, and when it was renewed
    reported = 0
    seen = 0.0
    asked = -math.inf
    while True:
        last = _last(folder)
        if last:
            renewed, owner = _read(folder / f"{last}.json")
            now = time.monotonic()
            if watched != (last, renewed):
                watched = (last, renewed)
                seen = now
            ask_slurm = now - asked > 3 * INTERVAL
            if ask_slurm:
                asked = now
            if not _is_dead(owner, me, now - seen, ask_slurm):
                if reported != last:
                    on_wait(_label(owner))
                reported = last
                time.sleep(POLL)
                continue

        with suppress(FileExistsError):
            descriptor = os.open(folder / f"{last + 1}.json", EXCLUSIVE, 0o644)
            _write(descriptor, me)
            return last + 1, descriptor


def _is_dead(
    owner: Owner,
    me: Owner,
    silent: float,
    ask_slurm: bool,
) -> bool:
    """Whether an attempt has ended.

    - `owner`, `me`: its process and this one.
    - `silent`: seconds for which its file was not renewed.
    - `ask_slurm`: whether Slurm may be asked about its job.
    """
    if owner.get("ended"):
        return True
    if owner.get("host") == me["host"]:
        return _begun(owner.get("pid")) != owner.get("begun")

    job = owner.get("job") or {}
    mine = me["job"] or {}
    is_same = job.get("id") == mine.get("id") and job.get("cluster") == mine.get("cluster")
    if job and is_same and job.get("restart", 0) < mine.get("restart", 0):
        return True  # it was requeued
    if ask_slurm and is_over(job):
        return True
    return silent >= PATIENCE * INTERVAL


def is_over(job: Mapping[str, Any]) -> bool:
    """Whether Slurm reports that the `job` has ended.

    `job`: as `slurm_job` describes it. False also if Slurm does not answer or the job belongs to
    another cluster.
    """
    cluster = job.get("cluster")
    if not job.get("id") or cluster != os.environ.get("SLURM_CLUSTER_NAME", cluster):
        return False

    command = ["squeue", "--noheader", "--states=all", "--format=%T", f"--jobs={job['id']}"]
    try:
        query = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=SQUEUE_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False

    if query.returncode:
        return "Invalid job id" in query.stderr
    states = query.stdout.split()
    return bool(states) and set(states) <= OVER


def _label(owner: Owner) -> str:
    """``process 123 on HOST, Slurm job 45``."""
    job = owner.get("job") or {}
    host = str(owner.get("host", "an unknown host")).partition(" ")[0]
    label = f"process {owner.get('pid')} on {host}"
    if job.get("id"):
        label += f", Slurm job {job['id']}"
    return label


def _last(folder: Path) -> int:
    """The number of the latest attempt; 0 if there is none."""
    numbers = [int(path.stem) for path in folder.glob("*.json") if path.stem.isdigit()]
    return max(numbers, default=0)


def _read(path: Path) -> tuple[int, dict[str, Any]]:
    """When the attempt was renewed (nanoseconds of the file server's clock), and its owner.

    The file is opened each time so that NFS asks its server. A file that is just being written has
    an empty owner and counts as alive.
    """
    with path.open("rb") as file:
        renewed = os.fstat(file.fileno()).st_mtime_ns
        try:
            data = json.loads(file.read())
        except ValueError:
            return renewed, {}
    if not isinstance(data, dict):
        return renewed, {}
    return renewed, data


def _write(descriptor: int, owner: Owner) -> None:
    """Replaces the content of an attempt's file, so that other nodes read it."""
    content = (json.dumps(owner) + "\n").encode()
    os.pwrite(descriptor, content, 0)
    os.ftruncate(descriptor, len(content))
    os.fsync(descriptor)


def _begun(pid: object) -> int | None:
    """When the process was started (clock ticks since boot), or None if it has ended.

    A process id alone may have been reused.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    if fields[0] in "ZX":  # a zombie, or dead
        return None
    return int(fields[19])
