"""One attempt at a run at a time on each host.

Each run has a folder with one small file for each attempt: ``1.json``, ``2.json``, … The process
that creates the next number exclusively owns the run. Files are never deleted or renamed, so a slow
process cannot mistake a living attempt for the dead one that it saw before. No file-system locks
are needed; the file systems of many clusters have none.

An attempt on this host is waited for until its process ends. An attempt on another host is not: its
node may be lost, and nobody could tell. If it lives, there are two records of one run, which does
no harm: records are never changed and are named by their start, and the later one counts.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rnnbench.records import timestamps
from rnnworker import machine

POLL = 2.0  # seconds between two looks at another attempt
EXCLUSIVE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


@contextmanager
def held(folder: Path, on_wait: Callable[[str], None] = lambda owner: None) -> Iterator[None]:
    """Owns a run; first waits until another attempt on this host ends.

    - `folder`: with the attempts at the run.
    - `on_wait`: called once with a description of each owner that is waited for.

    Raises `OSError` if the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    owner = this_process()
    descriptor = _claim(folder, owner, on_wait)
    try:
        yield
    finally:
        with suppress(OSError):
            _write(descriptor, {**owner, "ended": timestamps.now()})
        os.close(descriptor)


def this_process() -> dict[str, Any]:
    """A description of this process by which others on its host can recognise it."""
    # The host, its current boot and the container: the scope in which process ids are unique.
    namespace = ""
    with suppress(OSError):
        namespace = os.readlink("/proc/self/ns/pid")
    return {
        "host": f"{os.uname().nodename} {machine.boot()} {namespace}",
        "pid": os.getpid(),
        "begun": _begun(os.getpid()),
        "job": slurm_job(),
        "started": timestamps.now(),
    }


def slurm_job() -> dict[str, Any] | None:
    """Id, cluster, node, partition and restart count of this process's job; None outside Slurm."""
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


def _claim(folder: Path, me: Mapping[str, Any], on_wait: Callable[[str], None]) -> int:
    """Waits while the latest attempt lives, then begins the next. Returns the descriptor of its
    file."""
    reported = 0
    while True:
        numbers = [int(path.stem) for path in folder.glob("*.json") if path.stem.isdigit()]
        last = max(numbers, default=0)
        owner = {}
        if last:
            owner = _owner(folder / f"{last}.json")
        if _is_alive(owner, me):
            if reported != last:
                on_wait(_label(owner))
                reported = last
            time.sleep(POLL)
            continue
        with suppress(FileExistsError):
            descriptor = os.open(folder / f"{last + 1}.json", EXCLUSIVE, 0o644)
            _write(descriptor, me)
            return descriptor


def _is_alive(owner: Mapping[str, Any], me: Mapping[str, Any]) -> bool:
    """Whether an attempt on this host has not ended."""
    if owner.get("ended") or owner.get("host") != me["host"]:
        return False
    begun = owner.get("begun")
    return begun is not None and _begun(owner.get("pid")) == begun


def _label(owner: Mapping[str, Any]) -> str:
    host = owner["host"].partition(" ")[0]
    text = f"process {owner['pid']} on {host}"
    job = owner.get("job")
    if job:
        text += f", Slurm job {job['id']}"
    return text


def _owner(file: Path) -> dict[str, Any]:
    """Who began an attempt; {} if its file stays empty, because its process ended at once."""
    content = file.read_bytes()
    if not content:
        time.sleep(POLL)
        content = file.read_bytes()
    owner = None
    with suppress(ValueError):
        owner = json.loads(content)
    if not isinstance(owner, dict):
        return {}
    return owner


def _write(descriptor: int, owner: Mapping[str, Any]) -> None:
    content = (json.dumps(owner) + "\n").encode()
    os.pwrite(descriptor, content, 0)
    os.ftruncate(descriptor, len(content))
    os.fsync(descriptor)


def _begun(pid: object) -> int | None:
    """When the process was started (clock ticks since boot), or None if it has ended. A process id
    alone may have been reused."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    if fields[0] in "ZX":
        return None
    return int(fields[19])
