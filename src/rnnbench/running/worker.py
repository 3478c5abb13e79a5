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
from rnnworker.forked_workers import FOLDER, Importer, Importers, kind_of, may_fork
from rnnworker.members import Member, Outcome

__all__ = ["Event", "Outcome", "parse", "supervise"]

Facts = Mapping[str, Any]  # name → value, of a run, a machine or a section of a config
Event = dict[str, Any]
Events = Sequence[Facts]


def job_of(config: Facts, root: Path, **more: Any) -> dict[str, Any]:
    """The job of a worker.

    `config`, `root`, `more`: as in `workers.job_of`. Raises `RunError` if the device has more
    threads than this machine.
    """
    try:
        job: dict[str, Any] = workers.job_of(config, root, nvml=nvml(), **more)
    except ValueError as error:
        remedy = f"choose a device with 1 to {len(os.sched_getaffinity(0))} threads."
        raise RunError(f"{error}.", where="device.threads", remedy=remedy) from None
    return job


def member(
    name: str,
    job: Facts,
    root: Path,
    files: Path,
    *,
    limits: Mapping[str, float],
    timing: int | None = None,
    **more: Any,
) -> Member:
    """The member of a cohort that runs a job.

    - `name`: of the run.
    - `job`: as from `job_of`.
    - `root`: the project's folder.
    - `files`: path prefix of its files ``.log``, ``.events.jsonl`` and, until it has been
      supervised, ``.job.json``.
    - `timing`: the descriptor of the host's timing lock, which the worker inherits.
    - `limits`, `more`: as in `Member`.
    """
    build = job["config"]["build"]
    inherit = () if timing is None else (timing,)
    environment(build)  # raises `ConfigError` for a list or a mapping
    files.parent.mkdir(parents=True, exist_ok=True)
    start = launcher(build, root)
    return workers.member_of(
        name,
        job,
        start,
        f"{files}.",
        limits,
        inherit=inherit,
        **more,
    )


def nvml() -> str | None:
    """The path of nvidia-ml-py's only module, with which a worker reads the state of its card.

    None if it is not installed.
    """
    spec = importlib.util.find_spec("pynvml")
    if spec is None:
        return None
    return spec.origin


def supervise(
    members: Sequence[Member],
    seed: int = 0,
    share: rounds.Share | None = None,
    importers: Importers | None = None,
) -> dict[str, Outcome]:
    """Calls `rnnworker.rounds.supervise`, reads events strictly, and removes the job files.

    - `members`: in starting order.
    - `seed`: decides the order of their turns.
    - `share`: how long these take in all.
    - `importers`: those of a loop over rounds.

    Returns name of a member → its outcome.
    """
    outcomes: dict[str, Outcome] = rounds.supervise(
        members,
        seed,
        parse=parse,
        share=share,
        importers=importers,
    )
    for each in members:
        Path(each.log).with_suffix(".job.json").unlink(missing_ok=True)
    return outcomes


def parse(line: bytes) -> Event | None:
    """The event in `line`, or None if it is not an event."""
    try:
        event = strict_loads(line)
    except ValueError:
        return None
    if isinstance(event, dict) and isinstance(event.get("event"), str):
        return event
    return None


def revision(folder: Path = Path(rnnworker.__file__).parent) -> str:
    """The git commit of the worker's `folder`, with ``-edited`` if a tracked file of its repository
    has changed; the package's version if the folder is not in git.

    It is for readers only: a run's identity has a digest of the code itself.
    """
    git = ["git", "-C", str(folder)]
    describe = ["describe", "--always", "--exclude=*", "--abbrev=40", "--dirty=-edited"]
    try:
        for arguments in (["ls-files", "--error-unmatch", "."], describe):
            done = subprocess.run(
                [*git, *arguments],
                check=True,
                capture_output=True,
                text=True,
                timeout=10,
                stdin=subprocess.DEVNULL,
            )
        return done.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return f"rnnbench {metadata.version('rnnbench')}"


LONGEST_SOCKET = 107  # bytes of the path of a Unix socket, of sun_path's 108
LONGEST_KIND = 16  # as `kind_of` names a socket


def _socket_folder() -> Path | None:
    """A new folder that only this user may enter, for the sockets of importers.

    It is in the temporary folder, or in /tmp if its path is too long for a socket. None, with a
    message, if neither can have one.
    """
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
    """Starts an importer for each build and CPU device of the workers with `configs`: at most as
    many as there are cores, those with the most workers.

    Other workers, and workers whose importer has ended, are started as they are without a
    workflow. So are workers of builds with a separate environment, because each round checks and
    repairs it before anything is imported.
    """

    def __init__(self, configs: Iterable[Facts], root: Path):
        self._importers: dict[str, Importer] = {}
        self._folder: Path | None = None
        by_process: dict[str, list[Facts]] = {}
        for config in configs:
            build = config["build"]
            if may_fork(config) and not pins_of(build, root):
                process = repr((build, config["device"]))
                by_process.setdefault(process, []).append(config)
        if not by_process:
            return

        self._folder = _socket_folder()
        if self._folder is None:
            return

        os.environ[FOLDER] = str(self._folder)
        cores = len(os.sched_getaffinity(0))
        ranked = sorted(by_process.values(), key=len, reverse=True)
        for number, alike in enumerate(ranked[:cores]):
            # What is wrong with a build is reported by the job that needs it.
            with suppress(RnnbenchError, OSError):
                self._start(alike[0], root, self._folder / str(number))

    def _start(self, config: Facts, root: Path, files: Path) -> None:
        """Starts the importer of workers with `config`, unless one of the same kind runs."""
        job = job_of(config, root)
        like = member("import", job, root, files, limits={})
        kind = kind_of(like)
        if kind in self._importers:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(str(files.parent / kind))
            listener.listen()
            self._importers[kind] = Importer(like, listener=listener)

    def end(self) -> None:
        """Ends the importers; their workers have ended by then."""
        for importer in self._importers.values():
            importer.finish()
        if self._folder:
            os.environ.pop(FOLDER, None)
            shutil.rmtree(self._folder, ignore_errors=True)
