"""Workers in this project's builds: their jobs and processes, and their supervision."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import rnnworker
from rnnbench.builds.launcher import launcher
from rnnbench.builds.pins import build_of
from rnnbench.errors import RunError
from rnnbench.records.store import strict_loads
from rnnworker import rounds, workers
from rnnworker.forked_workers import Importers
from rnnworker.members import Member, Outcome

__all__ = ["Event", "Outcome", "parse", "supervise"]

Facts = Mapping[str, Any]  # name → value, of a run, a machine or a section of a config
Event = dict[str, object]
Events = Sequence[Mapping[str, object]]


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
    build = build_of(job["config"]["build"])
    inherit = () if timing is None else (timing,)
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
