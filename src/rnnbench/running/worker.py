"""Workers in this project's builds: their jobs and processes, their supervision, and the importers
of a workflow."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import rnnworker
from rnnbench.builds.launcher import environment, launcher
from rnnbench.builds.pins import pins_of
from rnnbench.errors import RnnbenchError, RunError, say
from rnnbench.records.store import strict_loads
from rnnworker import rounds, workers
from rnnworker.forked_workers import FOLDER, Importer, kind_of, may_fork
from rnnworker.members import Member, Outcome


def job_of(config: Mapping[str, Any], root: Path, **more: Any) -> dict[str, Any]:
    """The job of a worker (see `workers.job_of`). Raises `RunError` if the device has more threads
    than this machine."""
    try:
        job: dict[str, Any] = workers.job_of(config, root, nvml=nvml(), **more)
    except ValueError as error:
        remedy = f"choose a device with 1 to {len(os.sched_getaffinity(0))} threads."
        raise RunError(f"{error}.", where="device.threads", remedy=remedy) from None
    return job


def member(
    name: str,
    job: Mapping[str, Any],
    root: Path,
    files: Path,
    *,
    limits: Mapping[str, float],
    timing: int | None = None,
    **more: Any,
) -> Member:
    """The member of a cohort that runs `job`. `files`: path prefix of its files ``.log``,
    ``.events.jsonl`` and, until it has been supervised, ``.job.json``; `timing`: the descriptor of
    the host's timing lock, which the worker inherits; `limits`, `more`: as in `Member`."""
    build, inherit = job["config"]["build"], () if timing is None else (timing,)
    environment(build)  # raises for what is no variable
    files.parent.mkdir(parents=True, exist_ok=True)
    start = launcher(build, root)
    return workers.member_of(name, job, start, f"{files}.", limits, inherit=inherit, **more)


def nvml() -> str | None:
    """The path of nvidia-ml-py's only module, with which a worker reads the state of its card."""
    spec = importlib.util.find_spec("pynvml")
    return spec.origin if spec else None


__all__ = ["Event", "Outcome", "parse", "supervise"]

Event = dict[str, Any]


def supervise(members: Sequence[Member], seed: int = 0) -> dict[str, Outcome]:
    """Calls `rnnworker.rounds.supervise`, reads events strictly, and removes the job files."""
    outcomes: dict[str, Outcome] = rounds.supervise(members, seed, parse=parse)
    for each in members:
        Path(each.log).with_suffix(".job.json").unlink(missing_ok=True)
    return outcomes


def parse(line: bytes) -> Event | None:
    """The event in `line`, or None if it is not an event."""
    try:
        event = strict_loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and isinstance(event.get("event"), str) else None


def revision(folder: Path = Path(rnnworker.__file__).parent) -> str:
    """The git commit of the worker's `folder`, with ``-edited`` if a tracked file of its repository
    has changed; the package's version if the folder is not in git. It is for readers only: a run's
    identity has a digest of the code itself."""
    git = ["git", "-C", str(folder)]
    describe = ["describe", "--always", "--exclude=*", "--abbrev=40", "--dirty=-edited"]
    try:
        for arguments in (["ls-files", "--error-unmatch", "."], describe):
            done = subprocess.run(
                [*git, *arguments], check=True, capture_output=True, text=True, timeout=10,
                stdin=subprocess.DEVNULL,
            )  # fmt: skip
        return done.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return f"rnnbench {metadata.version('rnnbench')}"


LONGEST_SOCKET = 107  # bytes of the path of a Unix socket, of sun_path's 108
LONGEST_KIND = 16  # as `kind_of` names a socket


def _socket_folder() -> Path | None:
    """A new folder that only this user may enter, for the sockets of importers: in the temporary
    folder, or in /tmp if its path is too long for a socket. None, with a message, if neither can
    have one."""
    for parent in (None, "/tmp"):
        with suppress(OSError):
            folder = tempfile.mkdtemp(prefix="rnnbench-", dir=parent)
            if len(os.fsencode(folder)) + 1 + LONGEST_KIND <= LONGEST_SOCKET:
                return Path(folder)
            os.rmdir(folder)
    say(
        "no folder for the sockets of importers, so each round imports the framework itself. "
        "Fix: set TMPDIR to a writable folder with a short path."
    )
    return None


class WorkflowImporters:
    """Starts an importer for each build and CPU device of the workers with `configs`, for at most
    as many as there are cores, those with the most workers. The workers of others, and of an
    importer that has ended, are started as they are without a workflow. So are those of builds with
    an environment of their own, because each round checks and repairs it before anything is
    imported."""

    def __init__(self, configs: Iterable[Mapping[str, Any]], root: Path):
        self._importers: dict[str, Importer] = {}
        by_process: dict[str, list[Mapping[str, Any]]] = {}
        for config in configs:
            if may_fork(config) and not pins_of(config["build"], root):
                by_process.setdefault(repr((config["build"], config["device"])), []).append(config)
        ranked = sorted(by_process.values(), key=len, reverse=True)
        self._folder: Path | None = None
        if not ranked:
            return
        self._folder = _socket_folder()
        if self._folder is None:
            return
        os.environ[FOLDER] = str(self._folder)
        for number, (config, *_) in enumerate(ranked[: len(os.sched_getaffinity(0))]):
            # What is wrong with a build is reported by the job that needs it.
            with suppress(RnnbenchError, OSError):
                self._start(config, root, self._folder / str(number))

    def _start(self, config: Mapping[str, Any], root: Path, files: Path) -> None:
        like = member("import", job_of(config, root), root, files, limits={})
        kind = kind_of(like)
        if kind not in self._importers:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
                listener.bind(str(files.parent / kind))
                listener.listen()
                self._importers[kind] = Importer(like, listener=listener)

    def end(self) -> None:
        """Ends the importers; their workers have ended by then."""
        for importer in self._importers.values():
            importer.finish()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
